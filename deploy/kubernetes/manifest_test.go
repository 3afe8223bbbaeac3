// Package kubernetes checks the manifests of this folder.
package kubernetes

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// job has the fields of batch/v1 that the manifests have, with the names in the reference of the Kubernetes API.
type job struct {
	APIVersion string                `yaml:"apiVersion"`
	Kind       string                `yaml:"kind"`
	Metadata   struct{ Name string } `yaml:"metadata"`
	Spec       struct {
		CompletionMode       string `yaml:"completionMode"`
		Completions          int    `yaml:"completions"`
		Parallelism          int    `yaml:"parallelism"`
		BackoffLimit         int    `yaml:"backoffLimit"`
		BackoffLimitPerIndex int    `yaml:"backoffLimitPerIndex"`
		PodFailurePolicy     struct {
			Rules []struct {
				Action      string `yaml:"action"`
				OnExitCodes struct {
					ContainerName string `yaml:"containerName"`
					Operator      string `yaml:"operator"`
					Values        []int  `yaml:"values"`
				} `yaml:"onExitCodes"`
				OnPodConditions []struct{ Type string } `yaml:"onPodConditions"`
			} `yaml:"rules"`
		} `yaml:"podFailurePolicy"`
		Template struct {
			Spec struct {
				RestartPolicy string      `yaml:"restartPolicy"`
				Containers    []container `yaml:"containers"`
				Volumes       []struct {
					Name  string `yaml:"name"`
					Claim struct {
						Name string `yaml:"claimName"`
					} `yaml:"persistentVolumeClaim"`
				} `yaml:"volumes"`
			} `yaml:"spec"`
		} `yaml:"template"`
	} `yaml:"spec"`
}

type container struct {
	Name            string   `yaml:"name"`
	Image           string   `yaml:"image"`
	ImagePullPolicy string   `yaml:"imagePullPolicy"`
	Command         []string `yaml:"command"`
	Args            []string `yaml:"args"`
	Resources       struct {
		Requests, Limits struct{ CPU, Memory string }
	} `yaml:"resources"`
	VolumeMounts []struct {
		Name string `yaml:"name"`
		Path string `yaml:"mountPath"`
	} `yaml:"volumeMounts"`
}

// read reads a manifest; a field that does not exist is an error.
func read(t *testing.T, name string) (j job) {
	t.Helper()
	file, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	fields := yaml.NewDecoder(file)
	fields.KnownFields(true)
	if err := fields.Decode(&j); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	pod := j.Spec.Template.Spec
	if j.APIVersion != "batch/v1" || j.Kind != "Job" || j.Metadata.Name == "" || len(pod.Containers) != 1 ||
		pod.Volumes[0].Name != pod.Containers[0].VolumeMounts[0].Name {
		t.Fatalf("%s: %+v", name, j)
	}
	return j
}

// run runs the manifest's command where the claim is the folder data, and returns its status.
func run(t *testing.T, program, data string, j job, env ...string) int {
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
	shards, merge := read(t, "montecarlo.yaml"), read(t, "merge.yaml")
	if shards.Spec.CompletionMode != "Indexed" || shards.Spec.BackoffLimitPerIndex == 0 ||
		shards.Spec.Template.Spec.RestartPolicy != "Never" {
		t.Error("the job is not indexed, or does not count failures by index")
	}
	rule := shards.Spec.PodFailurePolicy.Rules[0]
	if rule.Action != "FailJob" || rule.OnExitCodes.Operator != "In" || len(rule.OnExitCodes.Values) != 1 ||
		rule.OnExitCodes.Values[0] != 2 || rule.OnExitCodes.ContainerName != shards.Spec.Template.Spec.Containers[0].Name {
		t.Errorf("status 2 does not fail the job: %+v", rule)
	}
	data := t.TempDir()
	if out, err := exec.Command(program, "generate", "--problem", "matrix-completion", "--rows", "30", "--cols", "20",
		"--out", data+"/mc.npz").CombinedOutput(); err != nil {
		t.Fatalf("%v, %s", err, out)
	}
	n := shards.Spec.Completions
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
