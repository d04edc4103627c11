package redisbox

import (
	"context"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	clusterNodes = 3
	clusterSlots = 16384
)

// Cluster is a Redis Cluster of three masters without replicas. Each holds a third of the slots; when one
// is gone for two seconds, the others refuse everything, as a cluster that must cover all slots does.
type Cluster struct {
	nodes []*Server
}

// StartCluster runs a cluster and returns when every node says it is whole and takes writes in every
// slot. ctx bounds the start alone.
func StartCluster(ctx context.Context, path string) (*Cluster, error) {
	c := &Cluster{}
	for range clusterNodes {
		node, err := Start(ctx, path, "--cluster-enabled", "yes", "--cluster-node-timeout", "2000")
		if err != nil {
			c.Stop()
			return nil, fmt.Errorf("start a cluster: %w", err)
		}
		c.nodes = append(c.nodes, node)
	}
	if err := c.join(ctx); err != nil {
		c.Stop()
		return nil, fmt.Errorf("form a cluster: %w", err)
	}
	return c, nil
}

// Addrs are the host:port of the nodes.
func (c *Cluster) Addrs() []string {
	var addrs []string
	for _, n := range c.nodes {
		addrs = append(addrs, n.Addr())
	}
	return addrs
}

// URL is the cluster's address as a configuration file takes it.
func (c *Cluster) URL() string { return "redis://" + strings.Join(c.Addrs(), ",") }

// Nodes are the servers of the cluster, to be killed or paused one by one. A node that is restarted comes
// back as a stranger to the others.
func (c *Cluster) Nodes() []*Server { return c.nodes }

// Stop ends every node.
func (c *Cluster) Stop() {
	for _, n := range c.nodes {
		n.Stop()
	}
}

// join deals out the slots, introduces every node to every other one and waits until all agree.
func (c *Cluster) join(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	for i, n := range c.nodes {
		if err := settle(ctx, i, n); err != nil {
			return err
		}
	}
	for i, n := range c.nodes {
		if err := introduce(ctx, n, c.nodes[i+1:]); err != nil {
			return err
		}
	}
	for _, n := range c.nodes {
		rdb := n.Client()
		defer rdb.Close()
		if err := n.current().Await(ctx, func() error { return whole(ctx, rdb) }); err != nil {
			return err
		}
	}
	rdb := c.Client()
	defer rdb.Close()
	return c.nodes[0].current().Await(ctx, func() error { return writable(ctx, rdb) })
}

// settle gives node i its epoch, so that no two need to settle who is older, and its slots. A node that has met another
// takes no epoch any more.
func settle(ctx context.Context, i int, n *Server) error {
	rdb := n.Client()
	defer rdb.Close()
	if err := rdb.Do(ctx, "CLUSTER", "SET-CONFIG-EPOCH", i+1).Err(); err != nil {
		return err
	}
	first, next := i*clusterSlots/clusterNodes, (i+1)*clusterSlots/clusterNodes
	return rdb.ClusterAddSlotsRange(ctx, first, next-1).Err()
}

func introduce(ctx context.Context, n *Server, peers []*Server) error {
	rdb := n.Client()
	defer rdb.Close()
	for _, peer := range peers {
		host, port, err := net.SplitHostPort(peer.Addr())
		if err != nil {
			return err
		}
		if err := rdb.ClusterMeet(ctx, host, port).Err(); err != nil {
			return err
		}
	}
	return nil
}

// whole says whether the node sees all of the cluster.
func whole(ctx context.Context, rdb *redis.Client) error {
	info, err := rdb.ClusterInfo(ctx).Result()
	if err != nil {
		return err
	}
	for _, want := range []string{"cluster_state:ok", fmt.Sprintf("cluster_known_nodes:%d\r", clusterNodes),
		fmt.Sprintf("cluster_size:%d\r", clusterNodes)} {
		if !strings.Contains(info, want) {
			return fmt.Errorf("not %s", strings.TrimSpace(want))
		}
	}
	return nil
}

// writable sends a write that leaves nothing behind to each of enough slots to reach every node.
func writable(ctx context.Context, rdb *redis.ClusterClient) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	for i := range 64 {
		if err := rdb.Del(ctx, fmt.Sprintf("redisbox:ready:%d", i)).Err(); err != nil {
			return err
		}
	}
	return nil
}
