package main

import (
	"crypto/tls"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"ropeline/cmd/ropeline/config"
)

func checkCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "check --config FILE",
		Short: "Validate a configuration file",
		Long: "Prints every problem of the file and of ROPELINE_* variables on a line of its own (key: what is wrong, what is\n" +
			"allowed) and exits 1; or prints what is allowed but unwise, and exits 0.",
		Args: noArgs,
	}
	path := configFlag(c)
	c.RunE = func(c *cobra.Command, _ []string) error {
		cfg, err := loadConfig(c, *path)
		if err != nil {
			return err
		}
		if err := checkFiles(c.ErrOrStderr(), cfg); err != nil {
			return err
		}
		for _, w := range config.Warnings(cfg) {
			fmt.Fprintln(c.ErrOrStderr(), "warning: "+w)
		}
		fmt.Fprintf(c.OutOrStdout(), "%s: ok, rooms: %d\n", *path, len(cfg.Rooms))
		return nil
	}
	return c
}

// checkFiles looks into the files that a configuration names, which serve reads at its start.
func checkFiles(complaints io.Writer, cfg *config.Config) error {
	bad := false
	complain := func(key string, err error) {
		if err != nil {
			fmt.Fprintf(complaints, "%s: %v\n", key, err)
			bad = true
		}
	}
	if cfg.Signing.KeysFile != "" {
		_, err := readKeys(cfg.Signing.KeysFile)
		complain("signing.keys_file", err)
	}
	if cfg.TLS.CertFile != "" {
		_, err := tls.LoadX509KeyPair(cfg.TLS.CertFile, cfg.TLS.KeyFile)
		complain("tls.cert_file, tls.key_file", err)
	}
	for _, f := range secretFiles(cfg.Booking) {
		if _, err := f.read(); err != nil {
			fmt.Fprintln(complaints, err)
			bad = true
		}
	}
	if bad {
		return errSaid
	}
	return nil
}
