package main

import (
	"bytes"
	"context"
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
		Use:   "keys [--rotate FILE]",
		Short: "Make signing keys for signing.keys_file",
		Long: "Prints a private JWK set with a fresh signing key. With --rotate FILE the keys of FILE follow it: the new key\n" +
			"signs, the old ones verify until they are taken out of the file, which should be when their last token has ended.\n" +
			"Give the new file to every node; each reads it again within two seconds.",
		Args: noArgs,
	}
	algorithm := c.Flags().String("algorithm", token.EdDSA, "EdDSA or HS256")
	rotate := c.Flags().String("rotate", "", "file with the keys of before")
	c.RunE = func(c *cobra.Command, _ []string) error {
		keys, err := freshKeys(*algorithm, *rotate)
		if err != nil {
			return err
		}
		data, err := keys.JSON()
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(c.OutOrStdout(), "%s\n", bytes.TrimSpace(data))
		return err
	}
	return c
}

func freshKeys(algorithm, rotate string) (*token.Keys, error) {
	if rotate == "" {
		return token.Generate(algorithm)
	}
	data, err := os.ReadFile(rotate)
	if err != nil {
		return nil, err
	}
	old, err := token.ParseKeys(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", rotate, err)
	}
	return old.Rotate(algorithm)
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
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		data, err := os.ReadFile(k.file)
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
