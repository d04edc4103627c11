// Package arch holds no code: its tests keep the import rules of the tree.
package arch
