// The queue page: joins when it opens, polls when told to, and reloads its own address when admitted.
// It shows two things: view, the last answer about the place, and trouble, why the next one is late.
// ES2017: a browser that can't read it never sets the class and shows the form instead.

document.documentElement.className = 'js';
document.addEventListener('DOMContentLoaded', () => {
  try {
    queuePage();
  } catch (err) {
    document.documentElement.className = '';
    throw err;
  }
});

function queuePage() {
  // Milliseconds, all of them.
  const DEADLINE = 15000;
  const BACKOFF = 30000;
  const LONGEST_POLL = 300000;
  const STATUS_EVERY = 60000;
  const MINUTE = 60000;
  const SAY_EVERY = 20000;
  const MILESTONES = [10000, 5000, 2000, 1000, 500, 200, 100, 50, 20, 10, 5, 2, 1, 0];

  const data = JSON.parse($('data').textContent);
  const api = '/_ropeline/events/' + data.room;
  const key = 'ropeline:' + data.room;

  let lang = pickLanguage();
  let w = data.words[lang];
  let view = {state: 'joining'};
  let trouble = null;
  let kept = load('place') || {};
  let joined = false;
  let proved = false;
  let rejoins = 0;
  let failures = 0;
  let asking = false;
  let done = false;
  let timer = 0;
  let nextAt = 0;
  let skew = 0;
  let sound = null;
  let said = {at: 0, level: -1, state: ''};

  const channel = 'BroadcastChannel' in window ? new BroadcastChannel(key) : null;
  if (channel) channel.onmessage = event => hear(event.data);
  listen();
  translate();
  setInterval(tick, 1000);
  ask();

  // --- Talking to the server ---

  // ask joins, or polls once joined. It is the only function that does, and one call is under way at most.
  async function ask() {
    if (asking || done) return;
    asking = true;
    clearTimeout(timer);
    const joining = !joined;
    let answer = null;
    try {
      answer = await call(joining ? 'POST' : 'GET', joining ? '/queue' : '/queue/me');
    } catch (err) {
      answer = null;
    }
    asking = false;
    if (done) return;
    if (answer) settle(joining, answer);
    else lost();
  }

  // call resolves to status, parsed body and Retry-After in ms; it rejects where the network, or something in
  // it that answers for the server (the sign-in page of a train's Wi-Fi), is in the way.
  async function call(method, path) {
    const abort = new AbortController();
    const late = setTimeout(() => abort.abort(), DEADLINE);
    const options = {method: method, headers: {Accept: 'application/json'}, cache: 'no-store', credentials: 'same-origin', signal: abort.signal};
    if (method === 'POST') {
      options.headers['Content-Type'] = 'application/json';
      options.body = '{}';
    }
    try {
      const response = await fetch(api + path, options);
      const date = Date.parse(response.headers.get('Date'));
      // The header has whole seconds: half of one is right on average.
      if (date) skew = date + 500 - Date.now();
      const text = await response.text();
      const json = /json/.test(response.headers.get('Content-Type'));
      if (!json && response.status < 500 && response.status !== 204) throw new Error('not from the queue');
      return {status: response.status, body: json ? JSON.parse(text) : {}, retry: retryAfter(response.headers.get('Retry-After'))};
    } finally {
      clearTimeout(late);
    }
  }

  function retryAfter(header) {
    if (!header) return 0;
    const ms = /^\d+$/.test(header) ? header * 1000 : Date.parse(header) - now();
    return ms > 0 ? ms : 0;
  }

  // settle decides what an answer means.
  function settle(joining, answer) {
    const body = answer.body;
    const problem = String(body.type || '').replace('urn:ropeline:', '');
    if (answer.status < 300 && body.state) {
      failures = 0;
      trouble = null;
      joined = true;
      if (!joining) {
        proved = true;
        rejoins = 0;
      }
      accept(body);
      share({type: 'answer', answer: {state: body.state, number: body.number, ahead: body.ahead, etaSeconds: body.etaSeconds,
        waiting: body.waiting, opensAt: body.opensAt, reason: body.reason, pollAfterMs: view.wait}, kept: kept});
    } else if (problem === 'no-place' && !joining && !proved) {
      // The join was answered, and its cookie did not come back.
      rest('nocookies');
    } else if ((problem === 'no-place' || problem === 'place-unknown') && !joining) {
      rejoins++;
      joined = false;
      schedule(rejoins < 2 ? Math.random() * 1000 : backoff(rejoins));
    } else if (problem === 'room-closed') {
      outside(body.state === 'full' ? 'full' : 'closed');
    } else if (problem === 'line-full') {
      trouble = null;
      view = {state: 'linefull', reason: body.reason};
      schedule(Math.max(answer.retry, 10000) * (1 + Math.random() / 5));
      render();
    } else if (problem === 'identity-required') {
      rest('signin');
    } else if (problem === 'room-unknown') {
      rest('noroom');
    } else {
      failures++;
      // Whoever has a place keeps it meanwhile; whoever has none is not told of one.
      const away = problem === 'redis-away' && joining && !kept.number;
      wait(away ? 'away' : 'busy', Math.max(answer.retry * (1 + Math.random() / 5), backoff(failures)));
    }
  }

  // accept takes an answer about the place, our own or another tab's.
  function accept(answer) {
    view = answer;
    view.at = Date.now();
    view.wait = Math.min(Math.max(Number(answer.pollAfterMs) || 5000, 1000), LONGEST_POLL);
    if (answer.state === 'admitted') {
      admitted();
      return;
    }
    remember(answer);
    if (answer.state === 'expired') {
      rest('expired');
      return;
    }
    schedule(view.wait);
    render();
  }

  // remember keeps the fewest people ahead that this place was ever told, and the first number as 0 % of the
  // way: a position never gets worse before the visitor's eyes.
  function remember(answer) {
    if (kept.number !== answer.number) kept = {number: answer.number};
    if (Number.isInteger(answer.ahead) && answer.ahead >= 0) {
      kept.first = Math.max(kept.first || 0, answer.ahead, 1);
      kept.least = Math.min('least' in kept ? kept.least : answer.ahead, answer.ahead);
    }
    store('place', kept);
  }

  // outside watches the public status until a room that takes nobody takes somebody. The first look, soon,
  // is for the reason.
  function outside(state) {
    trouble = null;
    view = {state: state};
    render();
    watch(Math.random() * 2000);
  }

  function watch(ms) {
    clearTimeout(timer);
    nextAt = Date.now() + ms;
    timer = setTimeout(async () => {
      let status = null;
      try {
        status = await call('GET', '/status');
      } catch (err) {
        status = null;
      }
      if (done || joined) return;
      const seen = status && status.status === 200 ? status.body : view;
      if (seen.state !== 'closed' && seen.state !== 'full') {
        ask();
        return;
      }
      view = {state: seen.state, reason: seen.reason};
      render();
      watch(STATUS_EVERY * (0.75 + Math.random() / 2));
    }, ms);
  }

  // rest shows a state in which nothing happens until the visitor acts.
  function rest(state) {
    clearTimeout(timer);
    nextAt = Infinity;
    joined = false;
    trouble = null;
    if (state === 'expired' || state === 'left') {
      kept = {};
      store('place', kept);
    }
    view = {state: state};
    render();
  }

  function lost() {
    failures++;
    wait(navigator.onLine === false ? 'offline' : 'lost', backoff(failures));
  }

  function wait(kind, ms) {
    trouble = {kind: kind, until: Date.now() + ms};
    schedule(ms);
    render();
  }

  // told reports whether the server itself said when to come back: nobody is to try sooner.
  function told(kind) {
    return kind === 'busy' || kind === 'away';
  }

  function backoff(n) {
    return Math.min(BACKOFF, 1000 * Math.pow(2, n)) * (0.5 + Math.random() / 2);
  }

  function schedule(ms) {
    clearTimeout(timer);
    nextAt = Date.now() + ms;
    timer = setTimeout(ask, ms);
  }

  // wake asks at once when the time to do so passed while the phone slept or the tab was frozen.
  function wake() {
    if (!document.hidden && !asking && Date.now() >= nextAt) ask();
  }

  // --- Other tabs ---

  function share(message) {
    if (channel) channel.postMessage(message);
  }

  // hear takes what another tab of the same browser learned: one place, so one answer is enough for all.
  function hear(message) {
    if (done) return;
    if (message.type === 'left') {
      rest('left');
    } else if (message.type === 'answer') {
      joined = true;
      failures = 0;
      trouble = null;
      if (message.kept.number !== kept.number) {
        kept = message.kept;
      } else if ('least' in message.kept) {
        kept.first = Math.max(kept.first || 0, message.kept.first);
        kept.least = Math.min('least' in kept ? kept.least : Infinity, message.kept.least);
      }
      accept(message.answer);
      if (!done && nextAt < Infinity) schedule(view.wait * (1 + Math.random() / 5));
    }
  }

  // --- Going in ---

  function admitted() {
    done = true;
    clearTimeout(timer);
    trouble = null;
    view = {state: 'admitted'};
    const own = location.pathname !== '/_ropeline/rooms/' + data.room + '/page';
    const target = own ? location.href : safeReturn(new URLSearchParams(location.search).get('return'), location.origin) || data.entry;
    $('enter').href = target;
    // Without a memory of earlier tries a loop could not be seen: then the visitor presses the button.
    const tries = (load('tries') || []).filter(at => Math.abs(Date.now() - at) < MINUTE);
    const go = tries.length < 3 && store('tries', tries.concat(Date.now()));
    if (!go) view.state = tries.length ? 'stuck' : 'admitted';
    render();
    const sounding = beep();
    if (!go) return;
    // Long enough to be heard, and for a screen reader to begin.
    setTimeout(() => own ? location.reload() : location.replace(target), sounding ? 1500 : 700);
  }

  // beep plays two notes if the visitor switched the sound on, and reports whether it does.
  function beep() {
    if (!sound) return false;
    sound.resume();
    [[660, 0], [880, 0.25]].forEach(note => {
      const tone = sound.createOscillator();
      const level = sound.createGain();
      const from = sound.currentTime + note[1];
      tone.frequency.value = note[0];
      level.gain.setValueAtTime(0.0001, from);
      level.gain.exponentialRampToValueAtTime(0.25, from + 0.03);
      level.gain.exponentialRampToValueAtTime(0.0001, from + 0.6);
      tone.connect(level).connect(sound.destination);
      tone.start(from);
      tone.stop(from + 0.65);
    });
    return true;
  }

  // --- What the visitor does ---

  function listen() {
    $('try-now').onclick = () => ask();
    $('again').onclick = () => {
      if (view.state === 'noroom') {
        location.reload();
        return;
      }
      view = {state: 'joining'};
      proved = false;
      render();
      ask();
    };
    $('sound').onclick = switchSound;
    $('leave').onclick = () => {
      $('ask-failed').textContent = '';
      if ($('ask').showModal) $('ask').showModal();
      else if (confirm(w.leaveAsk + '\n' + w.leaveAskText)) leave();
    };
    $('stay').onclick = () => $('ask').close();
    $('leave-yes').onclick = leave;
    addEventListener('online', () => {
      if (trouble && !told(trouble.kind)) ask();
    });
    addEventListener('offline', () => {
      if (done || nextAt === Infinity) return;
      trouble = {kind: 'offline', until: nextAt};
      render();
    });
    addEventListener('pageshow', wake);
    addEventListener('focus', wake);
    document.addEventListener('visibilitychange', wake);
  }

  async function leave() {
    let answer = null;
    try {
      answer = await call('DELETE', '/queue/me');
    } catch (err) {
      answer = null;
    }
    if (done) return;
    if (!answer || answer.status >= 300 && answer.status !== 404) {
      $('ask-failed').textContent = w.leaveFailed;
      return;
    }
    if ($('ask').open) $('ask').close();
    share({type: 'left'});
    rest('left');
    $('again').focus();
  }

  function switchSound() {
    const Audio = window.AudioContext || window.webkitAudioContext;
    if (sound) {
      sound.close();
      sound = null;
    } else if (Audio) {
      sound = new Audio();
      beep();
    }
    $('sound').setAttribute('aria-checked', String(!!sound));
  }

  function pickLanguage() {
    const wanted = [load('language')].concat(navigator.languages || [navigator.language]);
    const known = wanted.map(tag => String(tag).toLowerCase().split('-')[0]).filter(tag => data.words[tag]);
    return known[0] || data.languages[0];
  }

  function switchLanguage(to) {
    lang = to;
    w = data.words[to];
    store('language', to);
    translate();
    const first = $('languages').querySelector('button');
    if (first) first.focus();
  }

  // --- Showing it ---

  function translate() {
    document.documentElement.lang = lang;
    const nav = $('languages');
    nav.hidden = data.languages.length < 2;
    nav.setAttribute('aria-label', w.language);
    nav.textContent = '';
    data.languages.filter(other => other !== lang).forEach(other => {
      const button = document.createElement('button');
      button.type = 'button';
      button.lang = other;
      button.textContent = data.words[other].name;
      button.onclick = () => switchLanguage(other);
      nav.appendChild(button);
    });
    document.querySelectorAll('[data-w]').forEach(element => {
      element.textContent = w[element.getAttribute('data-w')];
    });
    $('progress').setAttribute('aria-label', w.progress);
    render();
  }

  function render() {
    const state = w[view.state] ? view.state : 'waiting';
    const place = state === 'waiting' || state === 'paused' || state === 'holding';
    // Who found the room full or closed on arrival has no answer about a place, and nothing to leave.
    const inLine = view.at && (place || state === 'before_opening' || state === 'full' || state === 'closed');
    const text = inLine && {closed: w.closedKept, full: w.fullKept}[state] || w[state + 'Text'];
    $('card').setAttribute('data-state', state);
    put('state', w[state]);
    put('text', text);
    show('ahead', place && 'least' in kept);
    show('progress', place && 'least' in kept);
    if (place && 'least' in kept) renderAhead();
    show('wait', state === 'waiting');
    put('wait-range', waitRange());
    show('reason-box', view.reason);
    put('reason', view.reason || '');
    show('opening', state === 'before_opening' && view.opensAt);
    if (view.opensAt) put('opens-at', instant(view.opensAt, {dateStyle: 'full', timeStyle: 'short'}));
    show('facts', inLine);
    show('number-box', view.number > 0);
    put('number', number(view.number || 0, lang));
    show('in-line-box', view.waiting > 0);
    put('in-line', peopleText(view.waiting || 0, w, lang));
    put('updated', view.at ? instant(view.at + skew, {timeStyle: 'medium'}) : '');
    show('controls', inLine || state === 'joining' || state === 'linefull');
    show('leave', inLine);
    const act = {expired: 'again', left: 'again', nocookies: 'retry', signin: 'retry', noroom: 'reload'}[state];
    show('go', act || state === 'admitted' || state === 'stuck');
    show('again', act);
    put('again', w[act] || '');
    show('enter', !act);
    if (!inLine && $('ask').open) $('ask').close();
    show('trouble', trouble);
    if (trouble) {
      put('trouble-what', w[trouble.kind]);
      show('try-now', !told(trouble.kind));
    }
    tick();
    announce(state, place, text);
  }

  function renderAhead() {
    const text = kept.least === 0 ? w.next : peopleText(kept.least, w, lang);
    const digits = text.match(/[\d.,]+$/);
    const people = $('people');
    people.className = kept.least === 0 ? 'big words' : 'big';
    if (people.textContent !== text) {
      people.textContent = '';
      if (digits && digits.index) {
        const about = document.createElement('small');
        about.textContent = text.slice(0, digits.index);
        people.appendChild(about);
      }
      people.appendChild(document.createTextNode(digits ? digits[0] : text));
    }
    put('people-label', kept.least === 0 ? '' : kept.least === 1 ? w.aheadOne : w.ahead);
    const way = Math.round(100 * (1 - kept.least / kept.first));
    $('progress').setAttribute('aria-valuenow', way);
    $('progress').firstChild.style.width = way + '%';
  }

  function waitRange() {
    const eta = view.etaSeconds;
    return eta && eta.high >= 0 ? waitText(eta.low || 0, eta.high, w, lang) : w.waitUnknown;
  }

  // tick shows what changes with the clock alone: countdown, title, seconds to the next try.
  function tick() {
    let title = '';
    if (view.state === 'before_opening' && view.opensAt) {
      const left = Math.max(0, Math.ceil((Date.parse(view.opensAt) - now()) / 1000));
      const text = left ? countdownText(left, w, lang) : w.opening;
      put('opens-in', left ? w.opensIn : '');
      put('countdown', text);
      $('countdown').className = left && left < 86400 ? 'big' : 'big words';
      title = left ? w.opensIn + ' ' + text : text;
    } else if (view.state === 'waiting' && 'least' in kept) {
      title = kept.least ? fill(w.aheadTitle, 'n', peopleText(kept.least, w, lang)) : w.next;
    } else if (view.state !== 'joining') {
      title = w[view.state] || '';
    }
    title = title ? title + ' – ' + data.title : data.title;
    if (document.title !== title) document.title = title;
    if (trouble) {
      const left = Math.ceil((trouble.until - Date.now()) / 1000);
      put('trouble-when', left > 0 ? fill(w.retryIn, 'n', number(left, lang)) : w.retrying);
    }
  }

  // announce tells a screen reader of a new state or trouble at once, and of the way ahead at milestones.
  function announce(state, place, about) {
    const known = trouble ? trouble.kind : state;
    const level = place && 'least' in kept ? MILESTONES.filter(n => n >= kept.least).length : -1;
    const fresh = known !== said.state;
    if (!fresh && (level <= said.level || Date.now() - said.at < SAY_EVERY)) return;
    let text = trouble ? w[known] : w[state] + '. ';
    if (!trouble && level >= 0) {
      const people = peopleText(kept.least, w, lang);
      text = kept.least ? fill(kept.least === 1 ? w.aheadSayOne : w.aheadSay, 'n', people) : w.next + '.';
      if (state === 'waiting') text += ' ' + w.wait + ': ' + waitRange() + '.';
      if (fresh) text = w[state] + '. ' + text;
    } else if (!trouble) {
      text += about;
    }
    if (!trouble && /^(offline|lost|busy|away)$/.test(said.state)) text = w.back + ' ' + text;
    said = {state: known, level: level, at: Date.now()};
    put('said', text);
  }

  // --- Small parts ---

  function $(id) {
    return document.getElementById(id);
  }

  // put leaves a text alone that is right already, so that nothing is read out again for it.
  function put(id, text) {
    if ($(id).textContent !== text) $(id).textContent = text;
  }

  function show(id, visible) {
    $(id).hidden = !visible;
  }

  // now is the server's time as the last answer told it, in ms.
  function now() {
    return Date.now() + skew;
  }

  // instant writes a time in the visitor's own zone, as it is written where the visitor's browser is from.
  function instant(at, style) {
    const date = new Date(at);
    if (isNaN(date)) return '';
    const regional = (navigator.languages || []).filter(tag => tag.toLowerCase().split('-')[0] === lang);
    try {
      return new Intl.DateTimeFormat(regional.concat(lang), style).format(date);
    } catch (err) {
      return date.toLocaleString(lang);
    }
  }

  function load(name) {
    try {
      return JSON.parse(sessionStorage.getItem(key + ':' + name));
    } catch (err) {
      return null;
    }
  }

  // store reports whether the browser kept the value.
  function store(name, value) {
    try {
      sessionStorage.setItem(key + ':' + name, JSON.stringify(value));
      return true;
    } catch (err) {
      return false;
    }
  }
}
