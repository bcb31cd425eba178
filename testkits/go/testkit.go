// Package testkit runs RocketMQ clusters for Go tests, as processes of the emulator.
//
//	func TestOrders(t *testing.T) {
//		cluster := testkit.New(t) // empty; other tests that run at the same time have others
//		producer.WithNameServer([]string{cluster.Namesrv})
//		cluster.Kill("broker-b")
//	}
//
// The command rmqemu is found in the PATH, or by the variable RMQEMU.  Tests that run one after the
// other use one cluster, because a reset takes milliseconds and a start half a second.  All clusters
// of a test binary end with it, also if it is killed.  Their folders are removed by
//
//	func TestMain(m *testing.M) { os.Exit(testkit.Run(m)) }
package testkit

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// The ports of the control address and of the NameServer in a container.
const controlPort, namesrvPort = 9875, 9876

// Cluster is a NameServer and brokers: namesrv, broker-a, broker-b.  A verb returns when it is done;
// one that is refused fails the test.
type Cluster struct {
	Namesrv string // for clients: host:port
	Control string // http://host:port
	t       testing.TB
}

var (
	lock sync.Mutex
	idle = map[string][]Cluster{} // by the options of their start
	ends []func()                 // of all clusters that were started
)

// Run runs the tests, ends the clusters, and returns the exit code.
func Run(m *testing.M) int {
	code := m.Run()
	for _, end := range ends {
		end()
	}
	return code
}

// New returns a cluster that is as new, started with more options of `rmqemu up` ("--brokers", "3").
func New(t testing.TB, options ...string) *Cluster {
	t.Helper()
	kind := strings.Join(options, "\n")
	lock.Lock()
	var cluster Cluster
	if known := idle[kind]; len(known) > 0 {
		cluster, idle[kind] = known[len(known)-1], known[:len(known)-1]
	}
	lock.Unlock()
	if cluster.Namesrv == "" {
		cluster = start(t, options)
	}
	given := cluster
	given.t = t
	t.Cleanup(func() {
		lock.Lock()
		defer lock.Unlock()
		idle[kind] = append(idle[kind], cluster)
	})
	given.Reset()
	return &given
}

// Mapped returns the cluster of a container with mapped ports, and lets each broker register its
// mapped port; port gives it for a port of the container.  The Go client accepts only IPs, so a name
// of the host is replaced by its IPv4 address.
func Mapped(t testing.TB, host string, port func(inside int) int) *Cluster {
	t.Helper()
	found, err := net.ResolveIPAddr("ip4", host)
	if err != nil {
		t.Fatal(err)
	}
	at := func(inside int) string { return fmt.Sprintf("%s:%d", found, port(inside)) }
	cluster := &Cluster{Namesrv: at(namesrvPort), Control: "http://" + at(controlPort), t: t}
	var table struct {
		Nodes []struct{ Name, Role, Address string }
	}
	cluster.Call("GET", "/nodes", "", &table)
	for _, node := range table.Nodes {
		if node.Role == "broker" {
			var inside int
			fmt.Sscan(node.Address[strings.LastIndex(node.Address, ":")+1:], &inside)
			cluster.Advertise(node.Name, at(inside))
		}
	}
	return cluster
}

// Kill ends a node as kill -9 does.
func (c *Cluster) Kill(node string) { c.t.Helper(); c.verb(node, "kill") }

// Start starts a node that is stopped or dead, with its store; a broker is then in the route.
func (c *Cluster) Start(node string) { c.t.Helper(); c.verb(node, "start") }

// Stop ends a node cleanly.
func (c *Cluster) Stop(node string) { c.t.Helper(); c.verb(node, "stop") }

// Restart kills a node and starts it again.
func (c *Cluster) Restart(node string) { c.t.Helper(); c.verb(node, "restart") }

// Pause pauses a node, as SIGSTOP does.
func (c *Cluster) Pause(node string) { c.t.Helper(); c.verb(node, "pause") }

// Resume lets a paused node continue.
func (c *Cluster) Resume(node string) { c.t.Helper(); c.verb(node, "resume") }

// Reset removes messages and faults and starts all nodes; clients stay connected.
func (c *Cluster) Reset() { c.t.Helper(); c.Call("POST", "/reset", "", nil) }

// Advance delivers now the delayed messages and retries that are due within that time.
func (c *Cluster) Advance(by time.Duration) {
	c.t.Helper()
	c.Call("POST", "/advance", fmt.Sprintf(`{"time": %d}`, by.Milliseconds()), nil)
}

// Advertise lets a broker register another address for clients, host:port.
func (c *Cluster) Advertise(broker, address string) {
	c.t.Helper()
	c.Call("POST", "/nodes/"+broker+"/advertise", fmt.Sprintf(`{"address": %q}`, address), nil)
}

// Fault begins a fault, a JSON object as docs/faults.md has them; end undoes its change.
func (c *Cluster) Fault(fault string) (end func()) {
	c.t.Helper()
	var begun struct {
		ID int `json:"fault_id"`
	}
	c.Call("POST", "/faults", fault, &begun)
	return func() {
		c.t.Helper()
		c.Call("DELETE", fmt.Sprintf("/faults/%d", begun.ID), "", nil)
	}
}

// State is that of a node: running, paused, stopped or dead.
func (c *Cluster) State(node string) string {
	c.t.Helper()
	var found struct{ State string }
	c.Call("GET", "/nodes/"+node, "", &found)
	return found.State
}

// Call calls the control address (docs/control.md); answer, if not nil, gets the JSON of the answer.
func (c *Cluster) Call(method, path, body string, answer any) {
	c.t.Helper()
	request, err := http.NewRequest(method, c.Control+path, strings.NewReader(body))
	if err != nil {
		c.t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		c.t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode >= 400 {
		err = fmt.Errorf("%s", strings.TrimSpace(string(text)))
	}
	if err == nil && answer != nil {
		err = json.Unmarshal(text, answer)
	}
	if err != nil {
		c.t.Fatalf("%s %s: %v", method, path, err)
	}
}

func (c *Cluster) verb(node, verb string) {
	c.t.Helper()
	c.Call("POST", "/nodes/"+node+"/"+verb, "", nil)
}

// start starts a process that ends with this one; its brokers write to a temporary folder, so
// acknowledged messages survive a kill of a broker.
func start(t testing.TB, options []string) (cluster Cluster) {
	t.Helper()
	store, err := os.MkdirTemp("", "rocketmq")
	if err != nil {
		t.Fatal(err)
	}
	command := strings.Fields(os.Getenv("RMQEMU"))
	if len(command) == 0 {
		command = []string{"rmqemu"}
	}
	command = append(command, "up", "--exit-with-parent", "--port", "0", "--store", store)
	up := exec.Command(command[0], append(command[1:], options...)...)
	up.Stderr = io.MultiWriter(os.Stderr) // not the file itself: `go test` waits until that is closed
	output, err := up.StdoutPipe()
	if err == nil {
		err = up.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	ready, err := bufio.NewReader(output).ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(ready, &cluster)
	}
	if err != nil {
		t.Fatalf("rmqemu up did not start; the reason is on standard error: %v", err)
	}
	lock.Lock()
	defer lock.Unlock()
	ends = append(ends, func() {
		up.Stderr = nil
		up.Process.Signal(syscall.SIGTERM)
		up.Wait()
		os.RemoveAll(store)
	})
	return cluster
}
