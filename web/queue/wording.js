// What the queue page says, as pure functions. web/wording.go says the same for the page without a script,
// and testdata/wording.json holds both to it. w is the page's words in one language.

function fill(text, name, value) {
  return text.split('{' + name + '}').join(value);
}

// number writes n with at most one decimal, grouped as the language does.
function number(n, lang) {
  const mark = lang === 'vi' ? ['.', ','] : [',', '.'];
  const parts = (Math.round(n * 10) / 10).toString().split('.');
  parts[0] = parts[0].replace(/\B(?=(\d{3})+$)/g, mark[0]);
  return parts.join(mark[1]);
}

// roundTwo keeps the two leading digits: 12345 is 12000.
function roundTwo(n) {
  let unit = 1;
  while (Math.floor(n / unit) >= 100) unit *= 10;
  return Math.floor((n + Math.floor(unit / 2)) / unit) * unit;
}

// peopleText says how many are ahead: exactly up to 100, "about" and two digits above.
function peopleText(ahead, w, lang) {
  if (ahead <= 100) return number(ahead, lang);
  return fill(w.about, 'n', number(roundTwo(ahead), lang));
}

function countText(w, key, n, lang) {
  return fill(n === 1 ? w[key + 'One'] : w[key], 'n', number(n, lang));
}

// waitText says a range of seconds, the low end rounded down and the high end up.
function waitText(low, high, w, lang) {
  if (high < 60) return w.underMinute;
  const lo = Math.floor(low / 60);
  const hi = Math.ceil(high / 60);
  if (hi <= 90) return rangeText(w, lo, hi, 'minutes', lang);
  const loHalves = Math.floor(low / 1800) / 2;
  const hiHalves = Math.ceil(high / 1800) / 2;
  if (loHalves >= 24 && hiHalves > 24) return w.overDay;
  if (hiHalves > 24) return fill(w.over, 'n', countText(w, 'hours', Math.max(1, Math.floor(loHalves)), lang));
  if (loHalves >= 1 || lo < 1) return rangeText(w, loHalves, hiHalves, 'hours', lang);
  return fill(fill(w.between, 'low', countText(w, 'minutes', lo, lang)), 'high', countText(w, 'hours', hiHalves, lang));
}

function rangeText(w, lo, hi, key, lang) {
  const high = countText(w, key, hi, lang);
  if (lo <= 0) return fill(w.upTo, 'n', high);
  if (lo >= hi) return fill(w.about, 'n', high);
  return number(lo, lang) + '–' + high;
}

// countdownText is what is left until an instant: "2 days 03:04:05" or "04:05".
function countdownText(seconds, w, lang) {
  const two = n => (n < 10 ? '0' : '') + n;
  const days = Math.floor(seconds / 86400);
  const hours = Math.floor(seconds / 3600) % 24;
  const clock = two(Math.floor(seconds / 60) % 60) + ':' + two(seconds % 60);
  if (days) return countText(w, 'days', days, lang) + ' ' + two(hours) + ':' + clock;
  return hours ? two(hours) + ':' + clock : clock;
}

// safeReturn gives the absolute address of a path on this origin, or '' for anything that is not plainly one:
// a second slash or a backslash makes an address of another host, and control bytes vanish when a browser
// reads an address.
function safeReturn(path, origin) {
  if (typeof path !== 'string' || !/^\/(?![/\\])[^\\\u0000-\u0020\u007f]*$/.test(path)) return '';
  let url;
  try {
    url = new URL(path, origin);
  } catch (err) {
    return '';
  }
  if (url.origin !== origin || /^\/(\/|_ropeline(\/|$))/i.test(url.pathname)) return '';
  return url.href;
}
