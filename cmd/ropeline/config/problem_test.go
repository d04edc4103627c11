package config

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Every bad value is refused by one line that names the full key, what is wrong, what is allowed, and where it stands.
func TestParse_RefusesBadFiles(t *testing.T) {
	const room = "rooms[0] (spring-tour)"
	for name, test := range map[string]struct {
		text string
		want []string
	}{
		"empty":         {"", []string{"file: is empty, it needs at least upstream and one room"}},
		"only comments": {"# nothing\n\n---\n", []string{"file: is empty, it needs at least upstream and one room"}},
		"null":          {"~\n", []string{"file: is empty, it needs at least upstream and one room"}},
		"not keys":      {"- a\n- b\n", []string{"file: does not hold keys, write key: value [line 1]"}},
		"no rooms": {"upstream: http://127.0.0.1:9000\n",
			[]string{"rooms: has no room, at least one is needed, as - {id: NAME, rate: 100/s, active_limit: 5000}"}},
		"empty rooms": {"upstream: http://127.0.0.1:9000\nrooms: []\n",
			[]string{"rooms: has no room, at least one is needed, as - {id: NAME, rate: 100/s, active_limit: 5000} [line 2]"}},
		"half written": {"upstream: http://127.0.0.1:9000\nrooms:\n",
			[]string{"rooms: has no room, at least one is needed, as - {id: NAME, rate: 100/s, active_limit: 5000} [line 2]"}},
		"rooms as a map": {"upstream: http://127.0.0.1:9000\nrooms: {a: {rate: 0}}\n",
			[]string{`rooms: takes a list of rooms, each of which begins with "- id: NAME" [line 2]`}},
		"a word as room": {base + "  - another\n", []string{`rooms[1]: is not a room, each begins with "- id: NAME" [line 6]`}},
		"tab":            {"upstream: http://127.0.0.1:9000\nrooms:\n\t- id: a\n", []string{"file: is indented by a tab, use spaces [line 3]"}},
		"NUL":            {base + "\x00", []string{"file: holds a NUL byte, write plain UTF-8 text [line 6]"}},
		"escaped NUL":    {withRoom(`title: "a\0b"`), []string{room + `.title: "a\x00b" holds a control character, write plain text [line 6]`}},
		"Latin-1":        {withRoom("title: caf\xe9"), []string{"file: is not UTF-8, write plain UTF-8 text [line 6]"}},
		"syntax":         {base + "  listen: [\n", []string{"file: is not YAML: did not find expected '-' indicator [line 6]"}},
		"unclosed list":  {"a: [b,\n  c\n" + base, []string{"file: is not YAML: did not find expected ',' or ']' [line 2]"}},
		"indentation":    {base + "     session: 5m\n", []string{"file: is not YAML: mapping values are not allowed in this context [line 6]"}},
		"two documents":  {base + "---\n" + base, []string{"file: holds a second YAML document, only one is allowed [line 6]"}},
		"unknown anchor": {withRoom("title: *t"), []string{"file: is not YAML: unknown anchor 't' referenced [line 6]"}},
		"tag":            {withRoom("title: !!binary aGk="), []string{room + `.title: has the YAML tag "!!binary", write a plain value [line 6]`}},

		"unknown key":         {withRoom("active_limt: 5"), []string{room + ".active_limt: is not a key here, did you mean active_limit? [line 6]"}},
		"capital key":         {withRoom("Title: x"), []string{room + ".Title: is not a key here, did you mean title? [line 6]"}},
		"unknown deep key":    {withRoom("poll: {mim: 2s}"), []string{room + ".poll.mim: is not a key here, did you mean min? [line 6]"}},
		"far unknown key":     {withTop("redis: {address: x}"), []string{"redis.address: is not a key here, allowed are url [line 1]"}},
		"room key on top":     {withTop("claim_window: 60s"), []string{"claim_window: is not a key here, it belongs to a room: indent it under one of rooms [line 1]"}},
		"top key in room":     {withRoom("listen: :80"), []string{room + ".listen: is not a key here, it belongs to the top of the file: do not indent it [line 6]"}},
		"dotted key":          {withTop("redis.url: auto"), []string{`"redis.url": is not a key here, allowed are listen, admin_listen, trusted_proxies, tls, redis, upstream, signing, log, shutdown_grace, booking, rooms [line 1]`}},
		"duplicate key":       {withRoom("rate: 200/s"), []string{room + ".rate: is given twice, the first time on line 4 [line 6]"}},
		"duplicate top key":   {withTop("log: {level: info}", "log: {level: warn}"), []string{"log: is given twice, the first time on line 1 [line 2]"}},
		"value for a group":   {withTop("redis: redis://127.0.0.1"), []string{"redis: is a group of keys, allowed are url [line 1]"}},
		"value for a list":    {withRoom("hosts: a.example"), []string{room + ".hosts: takes a list, write [one, two] [line 6]"}},
		"list for a value":    {withRoom("title: [a]"), []string{room + ".title: takes one value, not a list or keys of its own [line 6]"}},
		"list in a list":      {withRoom("hosts: [[a.example]]"), []string{room + ".hosts[0]: takes one value, not a list or keys of its own [line 6]"}},
		"missing keys":        {"rooms: [{id: a}]\n", []string{"rooms[0] (a).rate: is missing, it must be given [line 1]", "rooms[0] (a).active_limit: is missing, it must be given [line 1]", "upstream: is missing, it must be given"}},
		"missing id":          {"upstream: http://a.example\nrooms: [{rate: 0, active_limit: 1}]\n", []string{"rooms[0].id: is missing, it must be given [line 2]"}},
		"empty required":      {strings.Replace(base, "100/s", "", 1), []string{room + ".rate: is missing, it must be given [line 4]"}},
		"empty text":          {withRoom(`session: ""`), []string{room + ".session: is empty, leave the key out or give it a value [line 6]"}},
		"bad id":              {strings.Replace(base, "spring-tour", "Spring Tour", 1), []string{`rooms[0].id: "Spring Tour" is not an id, allowed are 1 to 64 of a-z, 0-9 and - [line 3]`}},
		"id of 65":            {strings.Replace(base, "spring-tour", strings.Repeat("a", 65), 1), []string{`rooms[0].id: "` + strings.Repeat("a", 60) + `…" is not an id, allowed are 1 to 64 of a-z, 0-9 and - [line 3]`}},
		"id twice":            {base + "  - {id: spring-tour, hosts: [a.example], rate: 0, active_limit: 1}\n", []string{`rooms[1] (spring-tour).id: "spring-tour" is the id of rooms[0] too, each room needs its own [line 6]`, `rooms[1] (spring-tour): overlaps rooms[0] (spring-tour): both hold /; give them other hosts or other paths [line 6]`}},
		"long title":          {withRoom("title: " + strings.Repeat("ư", 201)), []string{room + ".title: is 201 characters long, allowed are 200 [line 6]"}},
		"no unit":             {strings.Replace(base, "100/s", "100", 1), []string{room + `.rate: "100" has no unit, write 100/s or 6000/min (0 is allowed) [line 4]`}},
		"negative rate":       {strings.Replace(base, "100/s", "-1/s", 1), []string{room + `.rate: "-1/s" is negative, write 100/s, 6000/min or 0 [line 4]`}},
		"unknown unit":        {strings.Replace(base, "100/s", "600/day", 1), []string{room + `.rate: "600/day" has an unknown unit, write 100/s, 6000/min or 360000/h [line 4]`}},
		"absurd rate":         {strings.Replace(base, "100/s", "1000001/s", 1), []string{room + `.rate: "1000001/s" is out of range, allowed is 0 or from one a day (0.042/h) to 1000000/s [line 4]`}},
		"zero limit":          {strings.Replace(base, "5000", "0", 1), []string{room + ".active_limit: is 0, allowed is 1 to 10000000 (rate: 0 admits nobody) [line 5]"}},
		"negative limit":      {strings.Replace(base, "5000", "-1", 1), []string{room + ".active_limit: is -1, allowed is 1 to 10000000 (rate: 0 admits nobody) [line 5]"}},
		"absurd limit":        {strings.Replace(base, "5000", "1000000000", 1), []string{room + ".active_limit: is 1000000000, allowed is 1 to 10000000 (rate: 0 admits nobody) [line 5]"}},
		"huge limit":          {strings.Replace(base, "5000", "99999999999999999999", 1), []string{room + `.active_limit: "99999999999999999999" is too large [line 5]`}},
		"quoted limit":        {strings.Replace(base, "5000", `"100"`, 1), []string{room + `.active_limit: "100" is text, write a number without quotes [line 5]`}},
		"limit with fraction": {strings.Replace(base, "5000", "1e3", 1), []string{room + `.active_limit: "1e3" is not a whole number, write one like 5000 [line 5]`}},
		"octal limit":         {strings.Replace(base, "5000", "0100", 1), []string{room + `.active_limit: "0100" is not a whole number, write one like 5000 [line 5]`}},
		"session of 0":        {withRoom("session: 0s"), []string{room + ".session: is 0s, allowed is 1s to 12h [line 6]"}},
		"session of 10000h":   {withRoom("session: 10000h"), []string{room + ".session: is 10000h, allowed is 1s to 12h [line 6]"}},
		"session without unit": {withRoom("session: 600"),
			[]string{room + `.session: "600" has no unit, write 600s or 600m [line 6]`}},
		"session in words":      {withRoom("session: ten minutes"), []string{room + `.session: "ten minutes" is not a duration, write one like 30s, 10m or 1h30m [line 6]`}},
		"sliding past its max":  {withRoom("session: 1h", "sliding: true"), []string{room + ".session: is 1h, longer than session_max (30m); a sliding session must start within it [line 6]"}},
		"short claim window":    {withRoom("claim_window: 9s"), []string{room + ".claim_window: is 9s, allowed is 10s to 1h [line 6]"}},
		"negative claim window": {withRoom("claim_window: -10s"), []string{room + ".claim_window: is -10s, allowed is 10s to 1h [line 6]"}},
		"quick poll":            {withRoom("poll: {min: 10ms}"), []string{room + ".poll.min: is 10ms, allowed is 1s to 5m [line 6]"}},
		"zero poll":             {withRoom("poll: {min: 0, max: 0, budget: 0}"), []string{room + ".poll.min: is 0s, allowed is 1s to 5m [line 6]", room + ".poll.max: is 0s, allowed is 1s to 5m [line 6]", room + ".poll.budget: is 0, allowed is 1/s to 1000000/s [line 6]"}},
		"poll upside down":      {withRoom("poll: {min: 20s}"), []string{room + ".poll.min: is 20s, more than poll.max (15s) [line 6]"}},
		"yes":                   {withRoom("sliding: yes"), []string{room + `.sliding: "yes" is neither true nor false [line 6]`}},
		"quoted true":           {withRoom(`sliding: "true"`), []string{room + `.sliding: "true" is text, write true or false without quotes [line 6]`}},
		"state":                 {withRoom("state: shut"), []string{room + `.state: is "shut", allowed are open, paused, closed, full [line 6]`}},
		"ambiguous paths":       {withRoom("ambiguous_paths: pass"), []string{room + `.ambiguous_paths: is "pass", allowed are refuse, gate [line 6]`}},
		"on_outage":             {withRoom("on_outage: close"), []string{room + `.on_outage: is "close", allowed are hold, open [line 6]`}},
		"languages":             {withRoom("languages: [vi, fr]"), []string{room + `.languages[1]: "fr" is not a language we have, allowed are vi, en [line 6]`}},
		"language twice":        {withRoom("languages: [vi, vi]"), []string{room + `.languages[1]: "vi" is listed twice, the first time as languages[0] [line 6]`}},
		"no language":           {withRoom("languages: []"), []string{room + ".languages: is empty, allowed are vi, en [line 6]"}},
		"identity":              {withRoom("identity: email"), []string{room + `.identity: is "email", allowed are cookie and header:NAME [line 6]`}},
		"identity without name": {withRoom("identity: 'header:'"), []string{room + `.identity: is "header:", allowed are cookie and header:NAME [line 6]`}},
		"identity reserved":     {withTop("trusted_proxies: [192.0.2.7]") + "    identity: header:X_Ropeline-Visitor\n", []string{room + `.identity: "X_Ropeline-Visitor" is a header that means something else, choose one of your own, as header:X-Customer [line 7]`}},
		"identity from anyone":  {withRoom("identity: header:X-Customer"), []string{room + ".identity: believes a header, but trusted_proxies names nobody who may send it; name your proxy there [line 6]"}},
		"opening without zone":  {withRoom("opens_at: 2026-12-10T10:00:00"), []string{room + `.opens_at: "2026-12-10T10:00:00" has no time zone or no time, write one like 2026-12-10T10:00:00+07:00 [line 6]`}},
		"opening day":           {withRoom("opens_at: 2026-12-10"), []string{room + `.opens_at: "2026-12-10" has no time zone or no time, write one like 2026-12-10T10:00:00+07:00 [line 6]`}},
		"opening in words":      {withRoom("opens_at: tomorrow"), []string{room + `.opens_at: "tomorrow" is not a time, write one like 2026-12-10T10:00:00+07:00 [line 6]`}},
		"opening long ago":      {withRoom("opens_at: 0026-12-10T10:00:00Z"), []string{room + `.opens_at: "0026-12-10T10:00:00Z" is not in this century, write one like 2026-12-10T10:00:00+07:00 [line 6]`}},
		"origin of all":         {withRoom("cors_origins: ['*']"), []string{room + `.cors_origins[0]: "*" is not allowed, since the API knows visitors by a cookie; name each origin, write one like https://tickets.example.com [line 6]`}},
		"origin with path":      {withRoom("cors_origins: [https://a.example/]"), []string{room + `.cors_origins[0]: "https://a.example/" is more than a scheme, a host in lower case and a port, write one like https://tickets.example.com [line 6]`}},

		"upstream word":    {withRoom("upstream: site"), []string{room + ".upstream: has a scheme that is neither http nor https, write one like http://127.0.0.1:9000, or booking [line 6]"}},
		"upstream ftp":     {withRoom("upstream: ftp://a.example"), []string{room + ".upstream: has a scheme that is neither http nor https, write one like http://127.0.0.1:9000, or booking [line 6]"}},
		"upstream path":    {withRoom("upstream: http://a.example/app"), []string{room + ".upstream: has a path, but the upstream gets the path the visitor sent, write one like http://127.0.0.1:9000, or booking [line 6]"}},
		"upstream query":   {withRoom("upstream: http://a.example?x"), []string{room + ".upstream: has a query or a fragment, write one like http://127.0.0.1:9000, or booking [line 6]"}},
		"upstream user":    {withRoom("upstream: http://u:secret@a.example"), []string{room + ".upstream: holds a user name, which no request would carry, write one like http://127.0.0.1:9000, or booking [line 6]"}},
		"upstream port":    {withRoom("upstream: http://a.example:99999"), []string{room + ".upstream: names no host, or one with a bad name or port, write one like http://127.0.0.1:9000, or booking [line 6]"}},
		"upstream nothing": {withRoom("upstream: 'http://'"), []string{room + ".upstream: names no host, or one with a bad name or port, write one like http://127.0.0.1:9000, or booking [line 6]"}},
		"loop":             {strings.Replace(base, "9000", "8080", 1), []string{`upstream: "http://127.0.0.1:8080" is our own listen address and would loop, write the address of your site [line 1]`}},
		"loop by name":     {withRoom("upstream: http://localhost:9901/"), []string{room + `.upstream: "http://localhost:9901" is our own admin_listen address and would loop, write the address of your site [line 6]`}},
		"loop by wildcard": {withTop("listen: :80") + "    upstream: http://127.0.0.5\n", []string{room + `.upstream: "http://127.0.0.5" is our own listen address and would loop, write the address of your site [line 7]`}},
		"listen":           {withTop("listen: '8080'"), []string{`listen: "8080" is not an address to listen on, write host:port, like 127.0.0.1:8080 [line 1]`}},
		"listen port":      {withTop("listen: :65536"), []string{`listen: ":65536" is not an address to listen on, write host:port, like 127.0.0.1:8080 [line 1]`}},
		"admin everywhere": {withTop("admin_listen: :9901"), []string{`admin_listen: ":9901" names no host, write the address to listen on, like 127.0.0.1:9901 [line 1]`}},
		"admin on listen":  {withTop("admin_listen: localhost:8080"), []string{`admin_listen: "localhost:8080" is what listen has too, give it a port of its own [line 1]`}},
		"proxies": {withTop("trusted_proxies: [10.0.0.1/8, proxy.example, 10.0.0.0/33, 'fe80::1%eth0']"), []string{
			`trusted_proxies[0]: "10.0.0.1/8" has bits set beyond its length, write 10.0.0.0/8 [line 1]`,
			`trusted_proxies[1]: "proxy.example" is neither a network nor an address, write one like 10.0.0.0/8, 2001:db8::/32 or 192.0.2.7 [line 1]`,
			`trusted_proxies[2]: "10.0.0.0/33" is neither a network nor an address, write one like 10.0.0.0/8, 2001:db8::/32 or 192.0.2.7 [line 1]`,
			`trusted_proxies[3]: "fe80::1%eth0" is neither a network nor an address, write one like 10.0.0.0/8, 2001:db8::/32 or 192.0.2.7 [line 1]`}},
		"half of TLS":       {withTop("tls: {cert_file: a.pem}"), []string{"tls: has only one of cert_file and key_file, give both or neither [line 1]"}},
		"algorithm":         {withTop("signing: {algorithm: none}"), []string{`signing.algorithm: is "none", allowed are EdDSA, HS256 [line 1]`}},
		"log level":         {withTop("log: {level: loud}"), []string{`log.level: is "loud", allowed are debug, info, warn, error [line 1]`}},
		"log format":        {withTop("log: {format: xml}"), []string{`log.format: is "xml", allowed are json, text [line 1]`}},
		"shutdown grace":    {withTop("shutdown_grace: -1s"), []string{"shutdown_grace: is -1s, allowed is 1s to 10m [line 1]"}},
		"all at once":       {withRoom("session: 1", "poll: {min: x}", "stat: open"), []string{room + `.session: "1" has no unit, write 1s or 1m [line 6]`, room + `.poll.min: "x" is not a duration, write one like 30s, 10m or 1h30m [line 7]`, room + ".stat: is not a key here, did you mean state? [line 8]"}},
		"line break in key": {withTop(`"a\nb: c": 1`), []string{`"a\nb: c": is not a key here, allowed are listen, admin_listen, trusted_proxies, tls, redis, upstream, signing, log, shutdown_grace, booking, rooms [line 1]`}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, problems(t, test.text)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestParse_RefusesBadHosts(t *testing.T) {
	for host, want := range map[string]string{
		"Tickets.example.com":    "has capitals, write it in lower case",
		"tickets.example.com.":   "ends in a dot, write it without",
		"tickets.example.com:80": "has a port or is an IPv6 address, write a host name without a port",
		"::1":                    "has a port or is an IPv6 address, write a host name without a port",
		"*.example.com":          "has a *, name each host, or leave hosts out for every host",
		"http://a.example":       "is more than a host, write a host name like tickets.example.com",
		"a.example/x":            "is more than a host, write a host name like tickets.example.com",
		"vé.example":             "has letters beyond ASCII, write it as browsers send it, beginning with xn--",
		"a..example":             "is not a host name, write a host name like tickets.example.com",
		"-a.example":             "is not a host name, write a host name like tickets.example.com",
		"a b":                    "is not a host name, write a host name like tickets.example.com",
		"10.0.0.256":             "is not a host name nor an address, write a host name like tickets.example.com",
		"":                       "is empty or too long, write a host name like tickets.example.com",
	} {
		got := problems(t, withRoom(fmt.Sprintf("hosts: [ok.example, %q]", host)))
		if want := fmt.Sprintf("rooms[0] (spring-tour).hosts[1]: %q %s [line 6]", host, want); len(got) != 1 || got[0] != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	mustParse(t, withRoom("hosts: [tickets.example.com, localhost, 192.0.2.7, xn--v-bia.example, my_app]"))
}

func TestParse_RefusesBadPaths(t *testing.T) {
	const ambiguous = "can be read in two ways"
	for path, want := range map[string]string{
		"tickets/":     "does not begin with /",
		"/":            "is the whole host",
		"":             "does not begin with /",
		"//tickets/":   ambiguous,
		"/a//b":        ambiguous,
		"/a/./b":       ambiguous,
		"/a/../b":      ambiguous,
		"/a/..":        ambiguous,
		`/a\b`:         ambiguous,
		"/a;b/":        ambiguous,
		"/a#b":         ambiguous,
		"/%74ickets/":  "has percent encoding",
		"/a?b":         "has a query",
		"/_ropeline/x": "is below /_ropeline/",
		"/_Ropeline":   "is below /_ropeline/",
	} {
		got := problems(t, withRoom(fmt.Sprintf("paths: [/ok/, %q]", path)))
		if want := fmt.Sprintf("rooms[0] (spring-tour).paths[1]: %q %s", path, want); len(got) != 1 || !strings.HasPrefix(got[0], want) {
			t.Errorf("paths: got %q, want %q", got, want)
		}
	}
	for path, want := range map[string]string{
		"tickets":       "does not begin with /",
		"/":             "would open the front page with any query",
		"//a":           ambiguous,
		"/a/../b":       ambiguous,
		"/a/%2e%2E/b":   ambiguous,
		"/a/%2e":        ambiguous,
		"/a/.%2e/b":     ambiguous,
		"/a%2fb":        ambiguous,
		"/a%5Cb":        ambiguous,
		"/a%00":         ambiguous,
		"/a%0ab":        ambiguous,
		"/a%2574":       ambiguous,
		"/a%25%2574":    ambiguous,
		"/%c0%af":       ambiguous,
		"/a;b":          ambiguous,
		`/a\b`:          ambiguous,
		"/a%zz":         "has a % that two hex digits must follow",
		"/sự-kiện":      "has bytes that no browser sends",
		"/a b":          "has bytes that no browser sends",
		"/a?b=c":        "has a query",
		"/_ropeline/x":  "is below /_ropeline/",
		"/%5Fropeline/": "is below /_ropeline/",
	} {
		got := problems(t, withRoom(fmt.Sprintf("public_paths: [/ok, %q]", path)))
		if want := fmt.Sprintf("rooms[0] (spring-tour).public_paths[1]: %q %s", path, want); len(got) != 1 || !strings.HasPrefix(got[0], want) {
			t.Errorf("public_paths: got %q, want %q", got, want)
		}
	}
	mustParse(t, withRoom("paths: [/tickets, /sự-kiện/]", "public_paths: [/tickets/100%25.html, /s%E1%BB%B1-ki%E1%BB%87n/a.jpg, /TICKETS/b.css, /tickets]"))
	for _, outside := range []string{"/ticketsx", "/poster.jpg", "/a/tickets"} {
		got := problems(t, withRoom("paths: [/tickets/]", "public_paths: ["+outside+"]"))
		want := fmt.Sprintf("rooms[0] (spring-tour).public_paths[0]: %q is outside the room's paths, where nothing is gated; leave it out [line 7]", outside)
		if len(got) != 1 || got[0] != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestParse_RefusesBadRedisAddresses(t *testing.T) {
	for _, address := range []string{"auto", "embedded", "redis://127.0.0.1:6379/0", "redis://h", "rediss://user:p%40ss@h:1/3",
		"redis://a,b:7000,c", "redis://[::1]:6379", "redis://a:26379,b:26379/2?master=main"} {
		mustParse(t, withTop(fmt.Sprintf("redis: {url: %q}", address)))
	}
	for address, want := range map[string]string{
		"127.0.0.1:6379":        "is not an address of Redis",
		"http://secret":         "is not an address of Redis",
		"redis://":              "names no host",
		"redis://:secret@/0":    "names no host",
		"redis://secret,,b":     "names no host",
		"redis://secret:99999":  "names no host",
		"redis://h/secret":      "has a database that is not a number",
		"redis://h/-1":          "has a database that is not a number",
		"redis://a,secret/1":    "has a database, but a Cluster has none",
		"redis://secret?master": "has a part after the ? that cannot be read",
		"redis://se%zzcret@h":   "has a user or password that is not percent-encoded",
	} {
		got := problems(t, withTop(fmt.Sprintf("redis: {url: %q}", address)))
		if len(got) != 1 || !strings.HasPrefix(got[0], "redis.url: "+want) {
			t.Errorf("%s: got %q, want %q", address, got, want)
		}
		if strings.Contains(strings.Join(got, ""), "secret") {
			t.Errorf("%s: %q shows what may be a password", address, got)
		}
	}
}

func TestProblems_AreBounded(t *testing.T) {
	got := problems(t, base+strings.Repeat("  - x\n", 500))
	if want := "file: and 400 problems more"; len(got) != maxProblems+1 || got[maxProblems] != want {
		t.Errorf("got %d lines, the last %q, want %d and %q", len(got), got[len(got)-1], maxProblems+1, want)
	}
}
