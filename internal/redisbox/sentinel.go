package redisbox

import (
	"context"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"
)

// MasterName is what the sentinel of [StartSentinel] calls its master.
const MasterName = "ropeline"

// Sentinel is a master, its replica and one sentinel that promotes the replica when the master has been
// silent for a second.
type Sentinel struct {
	Master, Replica *Server // as they were at the start
	sentinel        *Server
}

// StartSentinel runs the three and returns when the sentinel knows both servers and the replica follows
// its master. ctx bounds the start alone.
func StartSentinel(ctx context.Context, path string) (*Sentinel, error) {
	s := &Sentinel{}
	if err := s.start(ctx, path); err != nil {
		s.Stop()
		return nil, fmt.Errorf("start a sentinel: %w", err)
	}
	return s, nil
}

func (s *Sentinel) start(ctx context.Context, path string) (err error) {
	if s.Master, err = Start(ctx, path); err != nil {
		return err
	}
	host, port, _ := strings.Cut(s.Master.Addr(), ":")
	if s.Replica, err = Start(ctx, path, "--replicaof", host+" "+port); err != nil {
		return err
	}
	if s.sentinel, err = Start(ctx, path, "--sentinel"); err != nil {
		return err
	}
	return s.watch(ctx, host, port)
}

// Addr is the host:port of the sentinel.
func (s *Sentinel) Addr() string { return s.sentinel.Addr() }

// URL is the address of the set as a configuration file takes it.
func (s *Sentinel) URL() string { return "redis://" + s.Addr() + "/0?master=" + MasterName }

// Stop ends all three.
func (s *Sentinel) Stop() {
	for _, server := range []*Server{s.sentinel, s.Replica, s.Master} {
		if server != nil {
			server.Stop()
		}
	}
}

// watch points the sentinel at the master and waits until it has found the replica and that is in step.
func (s *Sentinel) watch(ctx context.Context, host, port string) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	sentinel := redis.NewSentinelClient(options(s.Addr()))
	defer sentinel.Close()
	if err := sentinel.Monitor(ctx, MasterName, host, port, "1").Err(); err != nil {
		return err
	}
	for option, value := range map[string]string{"down-after-milliseconds": "1000", "failover-timeout": "5000"} {
		if err := sentinel.Set(ctx, MasterName, option, value).Err(); err != nil {
			return err
		}
	}
	replica := s.Replica.Client()
	defer replica.Close()
	return s.sentinel.current().Await(ctx, func() error {
		found, err := sentinel.Master(ctx, MasterName).Result()
		if err != nil {
			return err
		}
		if found["num-slaves"] != "1" {
			return fmt.Errorf("the sentinel sees %s replicas", found["num-slaves"])
		}
		return inStep(ctx, replica)
	})
}

func inStep(ctx context.Context, replica *redis.Client) error {
	info, err := replica.Info(ctx, "replication").Result()
	if err != nil {
		return err
	}
	if !strings.Contains(info, "master_link_status:up") {
		return fmt.Errorf("the replica is not in step")
	}
	return nil
}
