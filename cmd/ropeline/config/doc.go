// Package config reads the one file that says what Ropeline does, and keeps reading it while Ropeline runs.
//
// It owns the names of the keys, their defaults, every rule a value must keep, the environment variables that
// override them ([Load]), what is legal but unwise ([Warnings]), what cannot change while Ropeline runs
// ([NeedsRestart]), and the noticing of a changed file ([Watcher]).
//
// # Promises
//
//   - A file is read whole or not at all: [Load] returns a [Config] in which every value is allowed, or [*Problems],
//     which names every key that is wrong, not only the first.
//   - A Config has at least one room, and no two of its rooms claim the same path of the same host.
//   - A Config never changes once returned. A changed file makes a new one.
//   - While Ropeline runs, a broken, empty or half-written file changes nothing.
//
// # Why viper is kept on a short lead
//
// viper holds the layers (defaults, file, environment) and decodes them into [Config]. Three things it does are
// kept away from it. Its file watcher empties the running configuration when a file is broken, so [Watcher] is ours.
// It makes keys lower case and splits them at dots, so rooms are a list and the delimiter is a byte that no key can
// hold. And it loses line numbers and the text of a value (a time without a zone becomes one in UTC), so the YAML is
// read by our own decoder, registered with viper, which checks keys where they stand.
package config
