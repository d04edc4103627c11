package redisbox

import (
	"errors"
	"math/rand/v2"
	"net"
	"strconv"
)

// errPortTaken means another process took the port between our look and the server's own.
var errPortTaken = errors.New("redisbox: port taken")

// Ports are drawn from below the range from which Linux and macOS take the ports of outgoing
// connections, so that a server that was killed finds its port free when it is restarted. A cluster
// node's bus listens busOffset higher, still below that range.
const (
	firstPort = 11000
	lastPort  = 21999
	busOffset = 10000
)

// freePort returns a port of 127.0.0.1 on which, and on whose bus port, nothing listens now.
func freePort() (int, error) {
	const tries = 200
	for range tries {
		port := firstPort + rand.IntN(lastPort-firstPort+1)
		if unused(port) && unused(port+busOffset) {
			return port, nil
		}
	}
	return 0, errors.New("redisbox: no free port")
}

func unused(port int) bool {
	l, err := net.Listen("tcp", local(port))
	if err != nil {
		return false
	}
	return l.Close() == nil
}

// local is the address of a port of this machine, which only this machine reaches.
func local(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }
