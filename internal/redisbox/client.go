package redisbox

import (
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// options are those of a client that never sends a command twice, gives up with its context and doesn't
// ask a plain Redis for a managed service's notifications.
func options(addr string) *redis.Options {
	return &redis.Options{
		Addr:                     addr,
		MaxRetries:               -1,
		DialerRetries:            1,
		DialTimeout:              time.Second,
		ContextTimeoutEnabled:    true,
		MaintNotificationsConfig: noNotifications(),
	}
}

func clusterOptions(addrs []string) *redis.ClusterOptions {
	return &redis.ClusterOptions{
		Addrs:                    addrs,
		MaxRetries:               -1,
		MaxRedirects:             3,
		ContextTimeoutEnabled:    true,
		MaintNotificationsConfig: noNotifications(),
	}
}

func noNotifications() *maintnotifications.Config {
	return &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
}

// Client returns a client of the server at addr, such as the one of [Embedded]. The caller closes it.
func Client(addr string) *redis.Client { return redis.NewClient(options(addr)) }

// Client returns a client of the server. The caller closes it.
func (s *Server) Client() *redis.Client { return Client(s.Addr()) }

// Client returns a client of the whole cluster. The caller closes it.
func (c *Cluster) Client() *redis.ClusterClient {
	return redis.NewClusterClient(clusterOptions(c.Addrs()))
}

// Client returns a client that asks the sentinel for the master. The caller closes it.
func (s *Sentinel) Client() *redis.Client {
	return redis.NewFailoverClient(&redis.FailoverOptions{
		MasterName:            MasterName,
		SentinelAddrs:         []string{s.Addr()},
		MaxRetries:            -1,
		ContextTimeoutEnabled: true,
	})
}
