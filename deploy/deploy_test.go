// Package deploy checks that the configurations that ship with the deployment files are valid.
package deploy

import (
	"os"
	"testing"

	"go.yaml.in/yaml/v3"

	"ropeline/cmd/ropeline/config"
)

func TestComposeConfiguration_IsValid(t *testing.T) {
	for _, file := range []string{"config/ropeline.yaml", "config-shop/ropeline.yaml"} {
		if _, err := config.Load(file, nil); err != nil {
			t.Error(err)
		}
	}
}

func TestKubernetesConfiguration_IsValid(t *testing.T) {
	for _, file := range []string{"kubernetes/configmap.yaml", "kubernetes/shop/configmap.yaml"} {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var manifest struct {
			Data map[string]string `yaml:"data"`
		}
		if err := yaml.Unmarshal(data, &manifest); err != nil {
			t.Fatal(err)
		}
		text := manifest.Data["ropeline.yaml"]
		if text == "" {
			t.Errorf("%s holds no configuration", file)
		}
		if _, err := config.Parse([]byte(text), nil); err != nil {
			t.Errorf("%s: %v", file, err)
		}
	}
}
