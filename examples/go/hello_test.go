// Tests with clusters that they start themselves: each is empty at the start of a test, and one test kills a broker.
//
//	make -C examples/go test
package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	rocketmq "github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
	"rocketmq-emulator/testkit"
)

func TestMain(m *testing.M) { os.Exit(testkit.Run(m)) }

func producerOf(t *testing.T, cluster *testkit.Cluster) rocketmq.Producer {
	t.Helper()
	p, err := rocketmq.NewProducer(
		producer.WithNameServer([]string{cluster.Namesrv}),
		producer.WithGroupName("shop"),
		producer.WithInstanceName(t.Name()),
		producer.WithRetry(2),
	)
	if err == nil {
		err = p.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Shutdown() })
	return p
}

func send(t *testing.T, p rocketmq.Producer) *primitive.SendResult {
	t.Helper()
	sent, err := p.SendSync(context.Background(), primitive.NewMessage("orders", []byte("two cups")))
	if err != nil {
		t.Fatal(err)
	}
	return sent
}

func TestASecondTestFindsNothingOfTheFirst(t *testing.T) {
	for _, name := range []string{"first", "second"} {
		t.Run(name, func(t *testing.T) {
			if offset := send(t, producerOf(t, testkit.New(t))).QueueOffset; offset != 0 {
				t.Errorf("its first message has offset %d", offset)
			}
		})
	}
}

func TestOrdersAreStoredAlthoughABrokerIsDead(t *testing.T) {
	cluster := testkit.New(t)
	end := cluster.Fault(`{"fault": "kill", "node": "broker-b", "for": "1m"}`)
	p := producerOf(t, cluster)
	for range [8]int{} {
		if broker := send(t, p).MessageQueue.BrokerName; broker != "broker-a" {
			t.Errorf("%s has stored it", broker)
		}
	}
	if state := cluster.State("broker-b"); state != "dead" {
		t.Errorf("broker-b is %s", state)
	}
	end()
	if state := cluster.State("broker-b"); state != "running" {
		t.Errorf("broker-b is %s", state)
	}
	end() // of a fault that has ended: nothing happens
}

func TestDelayedMessagesAreDueWhenTheirTimeIsAdvanced(t *testing.T) {
	cluster := testkit.New(t)
	cluster.CreateTopic("orders", 1)
	message := primitive.NewMessage("orders", []byte("two cups"))
	message.WithDelayTimeLevel(16) // 30 min
	if _, err := producerOf(t, cluster).SendSync(context.Background(), message); err != nil {
		t.Fatal(err)
	}
	for _, due := range []int{0, 1} {
		if found := cluster.Advance(20 * time.Minute); found != due {
			t.Errorf("%d messages were due, not %d", found, due)
		}
	}
}

// failed is a test that has failed; it keeps what is logged.
type failed struct {
	testing.TB
	ends  []func()
	lines []string
}

func (f *failed) Failed() bool       { return true }
func (f *failed) Cleanup(end func()) { f.ends = append(f.ends, end) }
func (f *failed) Logf(format string, values ...any) {
	f.lines = append(f.lines, fmt.Sprintf(format, values...))
}

func TestBrokersWithoutATopicAndLikelyMistakesAreInTheLogOfAFailedTest(t *testing.T) {
	test := &failed{TB: t}
	cluster := testkit.New(test)
	cluster.Kill("broker-b")
	if brokers := fmt.Sprint(cluster.CreateTopic("orders", 1)); brokers != "[broker-a]" {
		t.Errorf("it was made on %s", brokers)
	}
	message := primitive.NewMessage("orders", []byte("two cups"))
	message.WithDelayTimeLevel(19) // of 18
	if _, err := producerOf(t, cluster).SendSync(context.Background(), message); err != nil {
		t.Fatal(err)
	}
	misuses := cluster.Misuses()
	if len(misuses) != 1 || !strings.Contains(misuses[0], "delay level 19, of 18") {
		t.Fatalf("likely mistakes are %q", misuses)
	}
	for _, end := range test.ends {
		end()
	}
	warning := "CreateTopic: orders was not made on broker-b, which is dead: make it again when it runs"
	if log := fmt.Sprint(test.lines); log != fmt.Sprint([]string{warning, "a likely mistake: " + misuses[0]}) {
		t.Errorf("logged is %s", log)
	}
}

// A cluster whose process has died is not given to the next test.
func TestATestAfterTheEndOfAClusterHasANewOne(t *testing.T) {
	for _, name := range []string{"first", "second"} {
		t.Run(name, func(t *testing.T) {
			cluster := testkit.New(t, "--brokers", "1")
			processes, err := exec.Command("ps", "-A", "-ww", "-o", "ppid=,pid=,args=").Output()
			if err != nil {
				t.Fatal(err)
			}
			for _, line := range strings.Split(string(processes), "\n") {
				var parent, pid int
				fmt.Sscan(line, &parent, &pid)
				if parent == os.Getpid() && strings.HasSuffix(strings.TrimSpace(line), "--brokers 1") {
					up, _ := os.FindProcess(pid)
					err = up.Kill()
				}
			}
			if err != nil {
				t.Fatal(err)
			}
			until := time.Now().Add(30 * time.Second)
			for err == nil { // until nobody listens at its control address
				if time.Now().After(until) {
					t.Fatal("its process has not ended")
				}
				var connection net.Conn
				if connection, err = net.Dial("tcp", strings.TrimPrefix(cluster.Control, "http://")); err == nil {
					connection.Close()
				}
			}
		})
	}
}

// Tests that run at the same time have a cluster each: none resets that of the other.
func TestSideBySide(t *testing.T) {
	mine := [2]chan string{make(chan string, 1), make(chan string, 1)}
	for number, name := range []string{"one", "other"} {
		number := number
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cluster := testkit.New(t)
			mine[number] <- cluster.Namesrv
			if other := <-mine[1-number]; other == cluster.Namesrv {
				t.Errorf("both use %s", other)
			}
		})
	}
}

// A cluster behind ports that are mapped, as by Testcontainers, whose container.MappedPort(ctx, "9876")
// MAPPED_PORTS stands for: 9876=32801,9875=32802,…
func TestMessagesGoThroughMappedPorts(t *testing.T) {
	if os.Getenv("MAPPED_PORTS") == "" {
		t.Skip("MAPPED_PORTS is not set")
	}
	ports := map[int]int{}
	for _, pair := range strings.Split(os.Getenv("MAPPED_PORTS"), ",") {
		var inside, outside int
		fmt.Sscanf(pair, "%d=%d", &inside, &outside)
		ports[inside] = outside
	}
	cluster := testkit.Mapped(t, "localhost", func(inside int) int { return ports[inside] })
	cluster.Reset()
	cluster.CreateTopic("orders", 4) // else its first message may make it on one broker only
	p := producerOf(t, cluster)
	for range [8]int{} {
		send(t, p)
	}
}
