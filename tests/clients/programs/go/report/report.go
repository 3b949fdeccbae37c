// Package report is what the Go programs of the matrix share: their surroundings, and how they report.
//
// A program is told by the environment where the proxy is and which token it holds, and by its
// arguments which operations to do. It prints one line of JSON for each.
package report

import (
	"encoding/json"
	"fmt"
	"os"
)

// What the test says about the proxy and the lock.
var (
	Endpoint  = os.Getenv("S3_ENDPOINT")
	Region    = os.Getenv("S3_REGION")
	AccessKey = os.Getenv("S3_ACCESS_KEY")
	SecretKey = os.Getenv("S3_SECRET_KEY")
	Bucket    = os.Getenv("S3_BUCKET")
	Prefix    = os.Getenv("S3_PREFIX")
	// Token is empty without a lock.
	Token     = os.Getenv("FENCE_TOKEN")
	InHeader  = os.Getenv("FENCE_CARRIER") == "header"
	SmallFile = os.Getenv("SMALL_FILE")
	LargeFile = os.Getenv("LARGE_FILE")
)

// PartBytes is the size of a part of a multipart upload.
const PartBytes = 8 << 20

// Result is what came of one operation, as far as the client shows it.
type Result struct {
	Operation string            `json:"operation"`
	OK        bool              `json:"ok"`
	Status    int               `json:"status,omitempty"`
	Code      string            `json:"code,omitempty"`
	Said      string            `json:"said,omitempty"`
	Body      string            `json:"body,omitempty"`
	Keys      []string          `json:"keys,omitempty"`
	Links     map[string]string `json:"links,omitempty"`
}

// Batch gives the keys that are deleted together.
func Batch() []string {
	return []string{Prefix + "/batch/a", Prefix + "/batch/b", Prefix + "/batch/c"}
}

// Run does the operations named by the arguments. refusal fills in the status and code of an error.
func Run(operations map[string]func(*Result) error, refusal func(error, *Result)) {
	for _, name := range os.Args[1:] {
		result := Result{Operation: name, OK: true}
		if err := operations[name](&result); err != nil {
			result.OK, result.Said = false, err.Error()
			if result.Code == "" {
				refusal(err, &result)
			}
		}
		line, err := json.Marshal(result)
		if err != nil {
			panic(err)
		}
		fmt.Println(string(line))
	}
}
