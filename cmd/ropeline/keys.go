package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/spf13/cobra"

	"ropeline/admitter/token"
	"ropeline/cmd/ropeline/config"
	"ropeline/queue"
)

func keysCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "keys [--add FILE | --promote FILE]",
		Short: "Make and rotate signing keys for signing.keys_file",
		Long: "Prints a private JWK set. The first key of a set signs, all of them verify.\n\n" +
			"  ropeline keys                  one fresh key\n" +
			"  ropeline keys --add FILE       the keys of FILE and a fresh one last: give it to every node first\n" +
			"  ropeline keys --promote FILE   the last key of FILE first, where it signs: then give them this\n\n" +
			"Each node reads its file again within two seconds. Take an old key out when its last token has ended.",
		Args: noArgs,
	}
	algorithm := c.Flags().String("algorithm", token.EdDSA, "of a fresh key: EdDSA or HS256")
	add := c.Flags().String("add", "", "file to whose keys a fresh one is added")
	promote := c.Flags().String("promote", "", "file whose last key is to sign")
	c.RunE = func(c *cobra.Command, _ []string) error {
		if *add != "" && *promote != "" {
			return fmt.Errorf("%w: --add and --promote are two steps, give one of them; see %s --help", errUsage, c.CommandPath())
		}
		set, err := keySet(*algorithm, *add, *promote)
		if err != nil {
			return err
		}
		out := json.NewEncoder(c.OutOrStdout())
		out.SetIndent("", "  ")
		return out.Encode(set)
	}
	return c
}

// jwks is a JWK set whose keys are not looked into.
type jwks struct {
	Keys []json.RawMessage `json:"keys"`
}

func keySet(algorithm, add, promote string) (jwks, error) {
	if promote != "" {
		set, err := readKeys(promote)
		if err != nil {
			return jwks{}, err
		}
		last := len(set.Keys) - 1
		return jwks{Keys: append([]json.RawMessage{set.Keys[last]}, set.Keys[:last]...)}, nil
	}
	fresh, err := token.Generate(algorithm)
	if err != nil {
		return jwks{}, fmt.Errorf("%w: --algorithm: %w", errUsage, err)
	}
	data, err := fresh.JSON()
	if err != nil {
		return jwks{}, err
	}
	var set jwks
	if err := json.Unmarshal(data, &set); err != nil || add == "" {
		return set, err
	}
	old, err := readKeys(add)
	return jwks{Keys: append(old.Keys, set.Keys...)}, err
}

func readKeys(file string) (jwks, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return jwks{}, err
	}
	if _, err := token.ParseKeys(data); err != nil {
		return jwks{}, fmt.Errorf("%s: %w", file, err)
	}
	var set jwks
	return set, json.Unmarshal(data, &set)
}

// keyring reads the signing keys and follows their file.
type keyring struct {
	file  string
	apply func(*token.Keys, *queue.Sealer)
	log   *slog.Logger
	seen  atomic.Pointer[[]byte]
}

// load reads the keys of the file, or those that the nodes share through Redis.
func (k *keyring) load(ctx context.Context, rdb redis.UniversalClient, cfg config.Signing) error {
	k.file = cfg.KeysFile
	if k.file == "" {
		data, err := queue.SharedKeys(ctx, rdb, func() ([]byte, error) {
			keys, err := token.Generate(cfg.Algorithm)
			if err != nil {
				return nil, err
			}
			return keys.JSON()
		})
		if err != nil {
			return err
		}
		return k.use(data, "Redis", cfg.Algorithm)
	}
	data, err := os.ReadFile(k.file)
	if err != nil {
		return fmt.Errorf("signing.keys_file: %w (ropeline keys makes one)", err)
	}
	return k.use(data, k.file, cfg.Algorithm)
}

func (k *keyring) use(data []byte, from, algorithm string) error {
	keys, err := token.ParseKeys(data)
	if err != nil {
		return fmt.Errorf("signing keys of %s: %w", from, err)
	}
	if algorithm != "" && keys.Algorithm() != algorithm {
		k.log.Warn("signing keys have another algorithm than signing.algorithm; the keys decide", "from", from, "algorithm", keys.Algorithm())
	}
	var seal []queue.SealKey
	for _, d := range keys.Derive("place") {
		seal = append(seal, queue.SealKey{ID: d.KeyID, Key: d.Key[:]})
	}
	sealer, err := queue.NewSealer(seal)
	if err != nil {
		return err
	}
	k.seen.Store(&data)
	k.apply(keys, sealer)
	return nil
}

// run looks at the file every second until ctx ends. A broken one changes nothing.
func (k *keyring) run(ctx context.Context) error {
	if k.file == "" {
		<-ctx.Done()
		return nil
	}
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	var bad []byte
	unread := false
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		data, err := os.ReadFile(k.file)
		if (err != nil) != unread {
			if unread = err != nil; unread {
				k.log.Error("signing keys can't be read, the old ones stay", "file", k.file, "err", err)
			}
		}
		if err != nil || bytes.Equal(data, *k.seen.Load()) || bytes.Equal(data, bad) {
			continue
		}
		if err := k.use(data, k.file, ""); err != nil {
			bad = data
			k.log.Error("signing keys not read, the old ones stay", "file", k.file, "err", err)
			continue
		}
		k.log.Info("signing keys read anew", "file", k.file)
	}
}
