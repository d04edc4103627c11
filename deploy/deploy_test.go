// Package deploy checks that the configurations that ship with the deployment files are valid.
package deploy

import (
	"os"
	"testing"

	"go.yaml.in/yaml/v3"

	"ropeline/cmd/ropeline/config"
)

func TestComposeConfiguration_IsValid(t *testing.T) {
	if _, err := config.Load("config/ropeline.yaml", nil); err != nil {
		t.Error(err)
	}
}

func TestKubernetesConfiguration_IsValid(t *testing.T) {
	data, err := os.ReadFile("kubernetes/configmap.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var manifest struct {
		Data map[string]string `yaml:"data"`
	}
	if err := yaml.Unmarshal(data, &manifest); err != nil {
		t.Fatal(err)
	}
	if _, err := config.Parse([]byte(manifest.Data["ropeline.yaml"]), nil); err != nil {
		t.Error(err)
	}
}
