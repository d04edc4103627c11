// Package web renders every page the edge itself shows: the queue page, the small waiting page for browsers
// without JavaScript, and error pages.
//
// It owns the words (words/*.json), the looks (*.css) and the script that joins, polls and reloads; it knows
// nothing of Redis, of tokens or of who the visitor is. Three things always hold:
//
//   - A [Page] is the same bytes for every visitor of its room, so that any cache may keep it. All that is
//     personal reaches it later, by the queue API.
//   - Nothing is fetched but that API: no script, style, font or picture from anywhere else. The
//     Content-Security-Policy that comes with a page names the SHA-256 of its inline parts and nothing more.
//   - Whatever an organizer wrote (title, reason) is text, never markup: html/template escapes it.
//
// # Why a form as well
//
// The queue page holds a plain form which its script hides as its first act. A browser with scripts off, or
// too old to read this one, or one where the script broke, shows the form instead: it posts to the queue API,
// which answers with a redirect to [Wait], a page that refreshes itself. Nobody is left with an empty screen.
package web
