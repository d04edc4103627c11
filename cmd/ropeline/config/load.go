package config

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
)

// MaxFile is the size in bytes above which a file is refused unread.
const MaxFile = 1 << 20

// Load reads the file at path and lays environ (as of [os.Environ]) over it: ROPELINE_REDIS_URL for redis.url,
// ROPELINE_ROOMS_SPRING_TOUR_POLL_MIN for poll.min of the room spring-tour, a list as a,b. The error is [*Problems]
// and wraps the error of reading, if that is what failed.
func Load(path string, environ []string) (*Config, error) {
	data, err := read(path)
	if err != nil {
		return nil, err
	}
	return Parse(data, environ)
}

// Parse is [Load] of a file's content.
func Parse(data []byte, environ []string) (*Config, error) {
	found := newFindings()
	if len(data) > MaxFile {
		found.add("file", "is larger than %d bytes, write less", MaxFile)
		return nil, found.err()
	}
	cfg, labels := layers(data, environ, found)
	if cfg != nil {
		(&checker{cfg: cfg, labels: labels, findings: found}).check()
	}
	if err := found.err(); err != nil {
		return nil, err
	}
	cfg.hash = hash(data)
	return cfg, nil
}

// read returns the content of the file at path, at most one byte more than MaxFile.
func read(path string) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, unread(err)
	}
	defer func() { _ = file.Close() }() // nothing was written
	data, err := io.ReadAll(io.LimitReader(file, MaxFile+1))
	if err != nil {
		return nil, unread(err)
	}
	return data, nil
}

func unread(err error) error {
	problems := &Problems{cause: err}
	var at *os.PathError
	if errors.As(err, &at) {
		err = fmt.Errorf("%s: %w", at.Path, at.Err)
	}
	problems.List = []Problem{{Key: "file", Message: "cannot be read: " + err.Error()}}
	return problems
}

func hash(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}
