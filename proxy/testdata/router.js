// A router of the forgiving kind: it decodes (again and again), takes backslashes for slashes, cuts parameters,
// fragments and what follows a NUL, folds compatibility forms and letter case, and resolves dot segments. What
// it takes for /tickets/... is answered with the protected body.
'use strict';
const http = require('http');
const path = require('path');

function decode(s) {
  try { return decodeURIComponent(s); } catch { return Buffer.from(unescape(s), 'latin1').toString('utf8'); }
}

function route(target) {
  let p = target.replace(/^https?:\/\/[^/]*/i, '').split('?')[0].split('#')[0];
  for (let i = 0; i < 3; i++) p = decode(p);
  p = p.replace(/\\/g, '/').split('\0')[0].split('#')[0].split('?')[0];
  p = p.split('/').map((s) => s.split(';')[0].replace(/[\s.]+$/, (m) => (/^\.+$/.test(s.split(';')[0]) ? m : ''))).join('/');
  return path.posix.normalize('/' + p).toUpperCase().toLowerCase();
}

http.createServer((req, res) => {
  const p = route(req.url);
  if (p === '/tickets' || p.startsWith('/tickets/')) return res.end('PROTECTED-BODY');
  if (p === '/static/a.css') return res.end('public');
  res.statusCode = 404;
  res.end('not found');
}).listen(Number(process.argv[2]), '127.0.0.1');
