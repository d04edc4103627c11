package api

import (
	_ "embed"
	"encoding/json"
	"sync"

	"go.yaml.in/yaml/v3"
)

//go:embed openapi.yaml
var openAPISource []byte

// openAPIFile is the file as JSON.
var openAPIFile = sync.OnceValues(func() (blob, error) {
	var doc map[string]any
	if err := yaml.Unmarshal(openAPISource, &doc); err != nil {
		return blob{}, err
	}
	plain, err := json.Marshal(doc)
	if err != nil {
		return blob{}, err
	}
	return blobOf(plain), nil
})

// openAPI answers with the description of the API (OpenAPI 3.1).
func (a *API) openAPI(q *request) error {
	b, err := openAPIFile()
	if err != nil {
		return err
	}
	q.w.Header().Set("Cache-Control", "public, max-age=60")
	q.w.Header().Set("Access-Control-Allow-Origin", "*") // it says nothing of anybody
	q.sendBlob(b)
	return nil
}
