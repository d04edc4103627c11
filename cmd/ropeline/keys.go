package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
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
			"With --write FILE the set goes there. Never redirect the output into the file that is read: the shell empties it first.\n" +
			"Each node reads its file again within two seconds. Take an old key out when its last token has ended.",
		Args: noArgs,
	}
	algorithm := c.Flags().String("algorithm", token.EdDSA, "of a fresh key: EdDSA or HS256")
	add := c.Flags().String("add", "", "file to whose keys a fresh one is added")
	promote := c.Flags().String("promote", "", "file whose last key is to sign")
	write := c.Flags().String("write", "", "file to write, readable by its owner only, instead of printing; may be the one that is read")
	c.RunE = func(c *cobra.Command, _ []string) error {
		if *add != "" && *promote != "" {
			return fmt.Errorf("%w: --add and --promote are two steps, give one of them; see %s --help", errUsage, c.CommandPath())
		}
		set, err := keySet(*algorithm, *add, *promote)
		if err != nil {
			return err
		}
		text, err := json.MarshalIndent(set, "", "  ")
		if err != nil {
			return err
		}
		if *write != "" {
			return replaceFile(*write, append(text, '\n'))
		}
		_, err = fmt.Fprintf(c.OutOrStdout(), "%s\n", text)
		return err
	}
	return c
}

// replaceFile writes a file beside the old one, with its mode, and renames it over it: no reader sees half of it.
func replaceFile(path string, data []byte) error {
	mode := os.FileMode(0o600)
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real
		if old, err := os.Stat(path); err == nil {
			mode = old.Mode().Perm()
		}
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".keys-*") // readable by its owner only
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err = errors.Join(err, f.Chmod(mode), f.Sync(), f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		_ = os.Remove(f.Name())
	}
	return err
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
	file   string
	apply  func(*token.Keys, *queue.Sealer)
	report func(error) // of each change of the file: nil if it is in use
	log    *slog.Logger
	seen   []byte   // the content in use
	ids    []string // of the keys in use, the one that signs first
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
	var ids []string
	for _, d := range keys.Derive("place") {
		ids = append(ids, d.KeyID)
		seal = append(seal, queue.SealKey{ID: d.KeyID, Key: d.Key[:]})
	}
	sealer, err := queue.NewSealer(seal)
	if err != nil {
		return err
	}
	k.seen = data
	k.ids = ids
	k.apply(keys, sealer)
	return nil
}

// run looks at the file every second until ctx ends. A broken one changes nothing, and is told once for each content.
func (k *keyring) run(ctx context.Context) error {
	if k.file == "" {
		<-ctx.Done()
		return nil
	}
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for last := string(k.seen); ; {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		now, err := k.look(&last)
		if !now {
			continue
		}
		k.report(err)
		if err != nil {
			k.log.Error("signing keys not read, the old ones stay", "file", k.file, "err", err)
		}
	}
}

// look reads the file, and its keys if it is another one than last time.
func (k *keyring) look(last *string) (changed bool, err error) {
	data, err := os.ReadFile(k.file)
	content := string(data)
	if err != nil {
		content = err.Error()
	}
	if content == *last {
		return false, nil
	}
	*last = content
	if err != nil || bytes.Equal(data, k.seen) {
		return true, err
	}
	before := k.ids
	if err := k.use(data, k.file, ""); err != nil {
		return true, err
	}
	gone := slices.DeleteFunc(slices.Clone(before), func(id string) bool { return slices.Contains(k.ids, id) })
	if len(gone) > 0 {
		k.log.Warn("signing keys taken out: the places and sessions they signed are void", "file", k.file, "kids", gone)
	}
	k.log.Info("signing keys read anew", "file", k.file, "signs", k.ids[0], "kids", k.ids)
	return true, nil
}
