// Package kubernetes checks the manifests of this folder. It is a module of its own because only this
// check needs the types of Kubernetes.
package kubernetes

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	batch "k8s.io/api/batch/v1"
	"sigs.k8s.io/yaml"
)

// job reads a manifest; a field that does not exist is an error.
func job(t *testing.T, name string) batch.Job {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	var j batch.Job
	if err := yaml.UnmarshalStrict(text, &j); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	if j.APIVersion != "batch/v1" || j.Kind != "Job" || len(j.Spec.Template.Spec.Containers) != 1 {
		t.Fatalf("%s: %s %s", name, j.APIVersion, j.Kind)
	}
	return j
}

// run runs the manifest's command where the claim is the folder data, and returns its status.
func run(t *testing.T, program, data string, j batch.Job, env ...string) int {
	t.Helper()
	c := j.Spec.Template.Spec.Containers[0]
	var words []string
	for _, w := range append(c.Command, c.Args...) {
		w = strings.ReplaceAll(w, "/data/", data+"/")
		words = append(words, strings.ReplaceAll(w, "--samples=400", "--samples=10"))
	}
	cmd := exec.Command(words[0], words[1:]...)
	cmd.Env = append(env, "PATH="+filepath.Dir(program)+":/bin:/usr/bin")
	cmd.Path = words[0]
	if words[0] == "surepipe" {
		cmd.Path = program
	} else if path, err := exec.LookPath(words[0]); err == nil {
		cmd.Path = path
	}
	cmd.Err = nil
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	if err := cmd.Run(); err != nil {
		t.Logf("%v: %v, %s", words, err, stderr.String())
	}
	return cmd.ProcessState.ExitCode()
}

// Every index of the job computes its shard and the second job merges them. $SUREPIPE is the
// program, which must be called surepipe.
func TestManifestsComputeTheRun(t *testing.T) {
	program := os.Getenv("SUREPIPE")
	if program == "" {
		t.Skip("SUREPIPE does not name the program")
	}
	shards, merge := job(t, "montecarlo.yaml"), job(t, "merge.yaml")
	if *shards.Spec.CompletionMode != batch.IndexedCompletion || shards.Spec.BackoffLimitPerIndex == nil ||
		shards.Spec.Template.Spec.RestartPolicy != "Never" {
		t.Error("the job is not indexed, or does not count failures by index")
	}
	rule := shards.Spec.PodFailurePolicy.Rules[0]
	if rule.Action != batch.PodFailurePolicyActionFailJob || len(rule.OnExitCodes.Values) != 1 ||
		rule.OnExitCodes.Values[0] != 2 {
		t.Errorf("status 2 does not fail the job: %+v", rule)
	}
	data := t.TempDir()
	if out, err := exec.Command(program, "generate", "--problem", "matrix-completion", "--rows", "30", "--cols", "20",
		"--out", data+"/mc.npz").CombinedOutput(); err != nil {
		t.Fatalf("%v, %s", err, out)
	}
	n := int(*shards.Spec.Completions)
	for i := range n {
		if i == n-1 {
			if status := run(t, program, data, merge); status != 4 {
				t.Errorf("merging %d of %d shards: status %d, expected 4", i, n, status)
			}
		}
		if status := run(t, program, data, shards, "JOB_COMPLETION_INDEX="+strconv.Itoa(i)); status != 0 {
			t.Fatalf("index %d: status %d", i, status)
		}
	}
	if status := run(t, program, data, merge); status != 0 {
		t.Errorf("merging: status %d", status)
	}
	lines, err := os.ReadFile(data + "/mc.jsonl")
	if err != nil || bytes.Count(lines, []byte("\n")) != 11 {
		t.Errorf("%v, %d lines, expected 11", err, bytes.Count(lines, []byte("\n")))
	}
	// Bad input is the status that fails the job.
	if err := os.Remove(data + "/mc.npz"); err != nil {
		t.Fatal(err)
	}
	if status := run(t, program, data, shards, "JOB_COMPLETION_INDEX=0"); status != 2 {
		t.Errorf("without data: status %d, expected 2", status)
	}
}
