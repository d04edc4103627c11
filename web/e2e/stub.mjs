// A stand-in for the edge: serves the rendered pages and plays any state of the queue API, so that each state
// of the page can be looked at by itself. The whole system is driven by system.mjs.
import { createServer } from 'node:http';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';

export class Stub {
  constructor(pages) {
    this.pages = pages;
    this.room = 'spring-tour';
    this.reset();
    this.server = createServer((request, response) => {
      this.serve(request, response).catch(err => {
        response.statusCode = 500;
        response.end(String(err));
      });
    });
  }

  reset() {
    // What joins and polls answer while problem is null; joining and polling may differ by join.
    this.place = { state: 'waiting', number: 20345, ahead: 12345, etaSeconds: { low: 659, high: 1441 }, waiting: 45210, pollAfterMs: 60_000 };
    this.join = null;
    this.problem = null; // {on: 'POST'|'GET'|'DELETE'|'', status, type, state?, retryAfter?}
    this.status = { state: 'open' };
    this.skewMs = 0; // how far the server's clock is ahead
    this.cookies = true; // whether the visitor gets any
    this.doorOpen = true; // false: an access token is not accepted
    this.plainText = false; // true: something else answers, as in a train's Wi-Fi
    this.broken = false; // true: the page's script is not the one the policy names
    this.log = []; // 'METHOD path' of every request
  }

  async start() {
    await new Promise(resolve => this.server.listen(0, '127.0.0.1', resolve));
    this.policies = JSON.parse(await readFile(join(this.pages, 'csp.json'), 'utf8'));
    this.url = `http://127.0.0.1:${this.server.address().port}`;
    return this;
  }

  async stop() {
    this.server.closeAllConnections();
    await new Promise(resolve => this.server.close(resolve));
  }

  count(prefix) {
    return this.log.filter(line => line.startsWith(prefix)).length;
  }

  async serve(request, response) {
    const url = new URL(request.url, this.url);
    this.log.push(`${request.method} ${url.pathname}`);
    response.sendDate = false;
    response.setHeader('Date', new Date(Date.now() + this.skewMs).toUTCString());
    response.setHeader('Cache-Control', 'no-store');
    const api = `/_ropeline/events/${this.room}`;
    if (url.pathname === `${api}/status`) return this.json(response, 200, this.status);
    if (url.pathname.startsWith(`${api}/queue`)) return this.queue(request, response, url.pathname.slice(api.length));
    if (url.pathname === `/_ropeline/rooms/${this.room}/wait`) return this.wait(request, response);
    const admitted = this.cookie(request, `ropeline_${this.room}`) && this.doorOpen;
    if (url.pathname === `/_ropeline/rooms/${this.room}/page` || !admitted) {
      return this.page(response, `page-${this.room}.html`);
    }
    response.setHeader('Content-Type', 'text/html; charset=utf-8');
    response.end(`<!doctype html><html lang="en"><title>The site</title><h1 id="site">${url.pathname}</h1></html>`);
  }

  async queue(request, response, path) {
    let body = '';
    for await (const chunk of request) body += chunk;
    if (this.plainText) {
      response.setHeader('Content-Type', 'text/html');
      response.end('<h1>Sign in to the Wi-Fi</h1>');
      return;
    }
    const form = request.headers['content-type'] === 'application/x-www-form-urlencoded';
    if (request.method === 'POST' && path === '/queue/me/leave') {
      this.forget(response);
      return this.redirect(response);
    }
    const problem = this.problem;
    if (problem && (!problem.on || problem.on === request.method)) {
      if (problem.retryAfter) response.setHeader('Retry-After', String(problem.retryAfter));
      return this.json(response, problem.status, { type: `urn:ropeline:${problem.type}`, title: problem.type, status: problem.status, state: problem.state });
    }
    const has = this.cookie(request, `ropeline_place_${this.room}`);
    if (request.method === 'POST' && path === '/queue') {
      this.give(response, `ropeline_place_${this.room}=place; Path=/_ropeline/`);
      return form ? this.redirect(response) : this.answer(response, 201, this.join || this.place);
    }
    if (!has) return this.json(response, 404, { type: 'urn:ropeline:no-place', title: 'No place', status: 404 });
    if (request.method === 'DELETE') {
      this.forget(response);
      response.statusCode = 204;
      return response.end();
    }
    return this.answer(response, 200, this.place);
  }

  answer(response, status, place) {
    if (place.state === 'admitted') this.give(response, `ropeline_${this.room}=access; Path=/`);
    this.json(response, status, place);
  }

  async wait(request, response) {
    const lang = /^vi/.test(request.headers['accept-language'] || '') ? 'vi' : 'en';
    const state = this.cookie(request, `ropeline_place_${this.room}`) ? this.place.state : '';
    if (state === 'admitted') this.give(response, `ropeline_${this.room}=access; Path=/`);
    return this.page(response, `wait-${state}-${lang}.html`, /content="12"/);
  }

  async page(response, name) {
    let body = await readFile(join(this.pages, name), 'utf8');
    // Twelve seconds in a test are too many.
    body = body.replace('http-equiv="refresh" content="12"', 'http-equiv="refresh" content="1"');
    if (this.broken) body = body.replace('queuePage();', 'queuePage( ;');
    response.setHeader('Content-Security-Policy', this.policies[name]);
    response.setHeader('Content-Type', 'text/html; charset=utf-8');
    response.end(body);
  }

  json(response, status, body) {
    response.statusCode = status;
    response.setHeader('Content-Type', status < 400 ? 'application/json' : 'application/problem+json');
    response.end(JSON.stringify(body));
  }

  redirect(response) {
    response.statusCode = 303;
    response.setHeader('Location', `/_ropeline/rooms/${this.room}/wait`);
    response.end();
  }

  give(response, cookie) {
    if (this.cookies) response.appendHeader('Set-Cookie', `${cookie}; HttpOnly; SameSite=Lax`);
  }

  forget(response) {
    response.appendHeader('Set-Cookie', `ropeline_place_${this.room}=; Path=/_ropeline/; Max-Age=0`);
  }

  cookie(request, name) {
    return (request.headers.cookie || '').split('; ').some(pair => pair.startsWith(`${name}=`));
  }
}
