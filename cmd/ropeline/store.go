package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"ropeline/internal/redisbox"
)

// embeddedWaiting is how many visitors the in-process store lets wait: it sorts a line anew for every look at it.
const embeddedWaiting = 5000

// store is the Redis of a node.
type store struct {
	redis.UniversalClient
	what       string // for people: what it is and where
	maxWaiting int    // 0 = no bound
	stop       func() // ends what was started here
}

// openStore connects to what redis.url names, and starts it where it says auto or embedded.
func openStore(ctx context.Context, target string, log *slog.Logger) (*store, error) {
	switch target {
	case "auto":
		if path, ok := redisbox.Find(); ok {
			server, err := redisbox.Start(ctx, path)
			if err != nil {
				return nil, fmt.Errorf("start %s: %w", path, err)
			}
			return connect(server.URL(), "redis-server of our own on "+server.Addr(), server.Stop)
		}
		return embedded(log)
	case "embedded":
		return embedded(log)
	}
	return connect(target, "Redis", func() {})
}

func embedded(log *slog.Logger) (*store, error) {
	m, err := redisbox.Embedded()
	if err != nil {
		return nil, fmt.Errorf("in-process Redis: %w", err)
	}
	log.Warn("the line is kept inside this process: it is lost at a restart and takes a few thousand visitors; install redis-server for more",
		"most_waiting", embeddedWaiting)
	s, err := connect("redis://"+m.Addr(), "in-process", m.Close)
	if err != nil {
		m.Close()
		return nil, err
	}
	s.maxWaiting = embeddedWaiting
	return s, nil
}

func connect(target, what string, stop func()) (*store, error) {
	options, err := redisOptions(target)
	if err != nil {
		return nil, err
	}
	return &store{UniversalClient: redis.NewUniversalClient(options), what: what, stop: stop}, nil
}

// warnings says what is unwise about the Redis behind the store: one that may throw keys away when its memory is full takes
// a whole line with them. A Redis that doesn't tell is passed over.
func (s *store) warnings(ctx context.Context) []string {
	info, err := s.Info(ctx, "memory").Result()
	if err != nil {
		return nil
	}
	for line := range strings.Lines(info) {
		policy, found := strings.CutPrefix(strings.TrimSpace(line), "maxmemory_policy:")
		if found && policy != "noeviction" {
			return []string{"maxmemory-policy is " + policy + ": when its memory is full Redis throws lines and sessions away; set noeviction"}
		}
	}
	return nil
}

// close ends the connections and what was started here.
func (s *store) close() {
	_ = s.Close()
	s.stop()
}

// redisOptions reads redis://[user:password@]host[:port][,host...][/db][?master=NAME], or rediss:// for TLS: several
// hosts are a Cluster, with master they are Sentinels.
//
// The client never sends a command twice by itself: a script whose outcome is unknown is asked again by its caller, with
// the same ids. MOVED and ASK of a Cluster are followed.
func redisOptions(target string) (*redis.UniversalOptions, error) {
	scheme, rest, _ := strings.Cut(target, "://")
	authority, query, _ := strings.Cut(rest, "?")
	authority, db, _ := strings.Cut(authority, "/")
	login, hosts := "", authority
	if i := strings.LastIndexByte(authority, '@'); i >= 0 {
		login, hosts = authority[:i], authority[i+1:]
	}
	o := &redis.UniversalOptions{
		MaxRetries: -1, MaxRedirects: 3, DialTimeout: time.Second, DialerRetries: 1,
		ReadTimeout: 2 * time.Second, WriteTimeout: 2 * time.Second, ContextTimeoutEnabled: true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	}
	for host := range strings.SplitSeq(hosts, ",") {
		if !strings.Contains(strings.TrimPrefix(host[strings.LastIndexByte(host, ']')+1:], "]"), ":") {
			host += ":6379"
		}
		o.Addrs = append(o.Addrs, host)
	}
	if u, err := url.Parse("redis://" + login + "@host"); err == nil && login != "" {
		o.Username = u.User.Username()
		o.Password, _ = u.User.Password()
	}
	if db != "" {
		n, err := strconv.Atoi(db)
		if err != nil {
			return nil, fmt.Errorf("redis.url: %q is no database number", db)
		}
		o.DB = n
	}
	values, err := url.ParseQuery(query)
	if err != nil {
		return nil, fmt.Errorf("redis.url: %w", err)
	}
	o.MasterName = values.Get("master")
	if scheme == "rediss" {
		o.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	if o.MasterName != "" {
		o.SentinelUsername, o.SentinelPassword = values.Get("sentinel_user"), values.Get("sentinel_password")
	}
	return o, nil
}
