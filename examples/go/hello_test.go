// Tests against a running cluster (rmqemu up): it is empty at the start of each, and one test kills a broker.
//
//	make -C examples/go test                // or: make test NAMESRV=HOST:PORT CONTROL=http://HOST:PORT
package main

import (
	"context"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"

	rocketmq "github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
)

// control calls the cluster's control address: docs/control.md.
func control(t *testing.T, method, path, body string) string {
	t.Helper()
	request, err := http.NewRequest(method, os.Getenv("CONTROL")+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, _ := io.ReadAll(response.Body)
	if response.StatusCode >= 400 {
		t.Fatal(string(text))
	}
	return string(text)
}

// fresh resets the cluster (no topics, no messages, no faults) and returns a producer.
func fresh(t *testing.T) rocketmq.Producer {
	t.Helper()
	control(t, "POST", "/reset", "")
	p, err := rocketmq.NewProducer(
		producer.WithNameServer([]string{os.Getenv("NAMESRV")}),
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
			if offset := send(t, fresh(t)).QueueOffset; offset != 0 {
				t.Errorf("its first message has offset %d", offset)
			}
		})
	}
}

func TestOrdersAreStoredAlthoughABrokerIsDead(t *testing.T) {
	p := fresh(t)
	control(t, "POST", "/faults", `{"fault": "kill", "node": "broker-b", "for": "1m"}`)
	for range [8]int{} {
		if broker := send(t, p).MessageQueue.BrokerName; broker != "broker-a" {
			t.Errorf("%s has stored it", broker)
		}
	}
	if nodes := control(t, "GET", "/nodes/broker-b", ""); !strings.Contains(nodes, `"dead"`) {
		t.Errorf("broker-b is not dead: %s", nodes)
	}
}
