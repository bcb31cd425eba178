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
// of a test binary end with it, also if it is killed.  It waits for their end with
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

const (
	readyMax     = 60 * time.Second
	answerMax    = 60 * time.Second
	stopMax      = 10 * time.Second
	keptBytesMax = 1000 // of what rmqemu writes to standard error, for messages
)

// Cluster is a NameServer and brokers: namesrv, broker-a, broker-b.  A verb returns when it is done;
// one that is refused fails the test.
type Cluster struct {
	Namesrv string // for clients: host:port
	Control string // http://host:port
	t       testing.TB
	up      *process // nil if it was not started here
}

var (
	client = &http.Client{Timeout: answerMax}

	lock sync.Mutex
	idle = map[string][]Cluster{} // by the options of their start
	all  []*process
)

// Run runs the tests, ends the clusters, and returns the exit code.
func Run(m *testing.M) int {
	code := m.Run()
	for _, up := range all {
		up.end()
	}
	return code
}

// New returns a cluster that is as new, started with more options of `rmqemu up` ("--brokers", "3").
func New(t testing.TB, options ...string) *Cluster {
	t.Helper()
	kind := strings.Join(options, "\n")
	lock.Lock()
	var cluster Cluster
	for known := idle[kind]; len(known) > 0 && cluster.up == nil; known = idle[kind] {
		cluster, idle[kind] = known[len(known)-1], known[:len(known)-1]
		if _, _, err := cluster.ask("GET", "/", ""); err != nil {
			cluster.up.end()
			t.Logf("a new cluster is started, because %s", cluster.up.ending())
			cluster = Cluster{}
		}
	}
	lock.Unlock()
	if cluster.up == nil {
		cluster = start(t, options)
	}
	given := cluster
	given.t = t
	t.Cleanup(func() {
		if t.Failed() {
			given.logMisuses()
		}
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

// Advance delivers now the delayed messages and retries that are due within that time; it returns
// their number.
func (c *Cluster) Advance(by time.Duration) int {
	c.t.Helper()
	var advanced struct {
		Due int `json:"due_count"`
	}
	c.Call("POST", "/advance", fmt.Sprintf(`{"time": %d}`, by.Milliseconds()), &advanced)
	return advanced.Due
}

// CreateTopic creates a topic, or changes it, with so many queues on each broker that runs; a reset
// removes it.  It returns these brokers, and logs the others.
func (c *Cluster) CreateTopic(topic string, queues int) []string {
	c.t.Helper()
	wanted, err := json.Marshal(map[string]any{"topic": topic, "queues": queues})
	if err != nil {
		c.t.Fatal(err)
	}
	var made struct {
		Brokers []string
		Warning string
	}
	c.Call("POST", "/topics", string(wanted), &made)
	if made.Warning != "" {
		c.t.Logf("CreateTopic: %s", made.Warning)
	}
	return made.Brokers
}

// Misuses returns the likely mistakes of clients that the running brokers have noticed since their
// start or the last reset, a sentence with the cure for each: see docs/pytest.md.  New logs them when
// the test fails.
func (c *Cluster) Misuses() []string {
	c.t.Helper()
	texts, err := c.misuses()
	if err != nil {
		c.t.Fatal(err)
	}
	return texts
}

func (c *Cluster) misuses() (texts []string, err error) {
	_, body, err := c.ask("GET", "/misuses", "")
	if err != nil {
		return nil, err
	}
	var found struct{ Misuses []struct{ Text string } }
	err = json.Unmarshal(body, &found)
	for _, each := range found.Misuses {
		texts = append(texts, each.Text)
	}
	return texts, err
}

// logMisuses logs none without an answer: a test can leave a broker that gives none.
func (c *Cluster) logMisuses() {
	texts, _ := c.misuses()
	for _, text := range texts {
		c.t.Logf("a likely mistake: %s", text)
	}
}

// Advertise lets a broker register another address for clients, host:port.
func (c *Cluster) Advertise(broker, address string) {
	c.t.Helper()
	c.Call("POST", "/nodes/"+broker+"/advertise", fmt.Sprintf(`{"address": %q}`, address), nil)
}

// Fault begins a fault, a JSON object as docs/faults.md has them; end undoes its change, and
// does nothing if the fault has ended.
func (c *Cluster) Fault(fault string) (end func()) {
	c.t.Helper()
	var begun struct {
		ID int `json:"fault_id"`
	}
	c.Call("POST", "/faults", fault, &begun)
	return func() {
		c.t.Helper()
		path := fmt.Sprintf("/faults/%d", begun.ID)
		if status, _, err := c.ask("DELETE", path, ""); err != nil && status != http.StatusNotFound {
			c.t.Fatal(err)
		}
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
	_, text, err := c.ask(method, path, body)
	if err == nil && answer != nil {
		err = json.Unmarshal(text, answer)
	}
	if err != nil {
		c.t.Fatal(err)
	}
}

func (c *Cluster) verb(node, verb string) {
	c.t.Helper()
	c.Call("POST", "/nodes/"+node+"/"+verb, "", nil)
}

// ask returns the answer's status and body; an error with its text if it is a refusal.
func (c *Cluster) ask(method, path, body string) (status int, text []byte, err error) {
	request, err := http.NewRequest(method, c.Control+path, strings.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	response, err := client.Do(request)
	if err != nil {
		return 0, nil, err
	}
	defer response.Body.Close()
	text, err = io.ReadAll(response.Body)
	if err == nil && response.StatusCode >= 400 {
		err = fmt.Errorf("%s %s: %s", method, path, strings.TrimSpace(string(text)))
	}
	return response.StatusCode, text, err
}

// process is `rmqemu up`, which ends with this process.
type process struct {
	command *exec.Cmd
	errors  *tail
	ended   chan struct{} // closed at its end
}

func start(t testing.TB, options []string) (cluster Cluster) {
	t.Helper()
	words := append([]string{"up", "--exit-with-parent", "--port", "0"}, options...)
	up := &process{command: rmqemu(words...), errors: &tail{}, ended: make(chan struct{})}
	up.command.Stderr = up.errors // not the file itself: `go test` waits until that is closed
	output, err := up.command.StdoutPipe()
	if err == nil {
		err = explained(up.command, up.command.Start())
	}
	if err != nil {
		t.Fatal(err)
	}
	first := make(chan string, 1)
	go func() {
		lines := bufio.NewReader(output)
		line, _ := lines.ReadString('\n')
		if line != "" {
			first <- line
		}
		io.Copy(io.Discard, lines)
		up.command.Wait()
		close(up.ended)
		close(first)
	}()
	select {
	case line, isThere := <-first:
		if !isThere {
			t.Fatal(up.ending())
		}
		if err := json.Unmarshal([]byte(line), &cluster); err != nil || cluster.Namesrv == "" {
			up.end()
			t.Fatalf("RMQEMU is %q, which is no rmqemu: its first line is: %s", os.Getenv("RMQEMU"), line)
		}
	case <-time.After(readyMax):
		up.end()
		t.Fatalf("rmqemu up was not ready after %v: %s", readyMax, up.errors)
	}
	cluster.up = up
	lock.Lock()
	defer lock.Unlock()
	all = append(all, up)
	return cluster
}

// ending says how it has ended.
func (p *process) ending() string {
	return fmt.Sprintf("rmqemu up has ended (%v): %s", p.command.ProcessState, p.errors)
}

func (p *process) end() {
	p.errors.silence() // what it writes at its end is of no use
	p.command.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.ended:
	case <-time.After(stopMax):
		p.command.Process.Kill()
		<-p.ended
	}
}

// rmqemu is the command in RMQEMU: a path with spaces, if there is such a file, otherwise words.
func rmqemu(words ...string) *exec.Cmd {
	given := os.Getenv("RMQEMU")
	program := strings.Fields(given)
	if len(program) == 0 {
		program = []string{"rmqemu"}
	} else if found, err := os.Stat(given); err == nil && !found.IsDir() {
		program = []string{given}
	}
	return exec.Command(program[0], append(program[1:], words...)...)
}

func explained(command *exec.Cmd, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("cannot run %s: put rmqemu in the PATH (a virtual environment that is not active hides it), or set RMQEMU to it: %w",
		command.Args[0], err)
}

// tail passes on what is written, and keeps the end of it.
type tail struct {
	lock     sync.Mutex
	kept     string
	isSilent bool
}

func (w *tail) Write(text []byte) (int, error) {
	w.lock.Lock()
	defer w.lock.Unlock()
	if w.isSilent {
		return len(text), nil
	}
	w.kept += string(text)
	w.kept = w.kept[max(0, len(w.kept)-keptBytesMax):]
	return os.Stderr.Write(text)
}

func (w *tail) silence() {
	w.lock.Lock()
	defer w.lock.Unlock()
	w.isSilent = true
}

func (w *tail) String() string {
	w.lock.Lock()
	defer w.lock.Unlock()
	return strings.TrimSpace(w.kept)
}
