package main

import (
	"context"
	"fmt"
	"os"
	"sync"
	"time"

	rocketmq "github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
)

// Outgoing is a message as a test describes it.
type Outgoing struct {
	Topic      string            `json:"topic"`
	Tags       string            `json:"tags"`
	Keys       string            `json:"keys"`
	Body       string            `json:"body"`
	Properties map[string]string `json:"properties"`
	DelayLevel int               `json:"delay_level"`
}

const sendTimeout = 10 * time.Second

var producers sync.Map // name → rocketmq.Producer

var statuses = map[primitive.SendStatus]string{
	primitive.SendOK:                "SEND_OK",
	primitive.SendFlushDiskTimeout:  "FLUSH_DISK_TIMEOUT",
	primitive.SendFlushSlaveTimeout: "FLUSH_SLAVE_TIMEOUT",
	primitive.SendSlaveNotAvailable: "SLAVE_NOT_AVAILABLE",
}

func startProducer(request Request) (any, error) {
	options := []producer.Option{
		producer.WithNameServer([]string{request.Namesrv}),
		producer.WithGroupName(request.Group),
		producer.WithInstanceName(instance(request.Producer)),
		producer.WithSendMsgTimeout(sendTimeout),
	}
	if request.Trace {
		options = append(options, producer.WithTrace(traceConfig(request.Namesrv)))
	}
	if request.Checks != nil {
		return startTransactional(request, options)
	}
	client, err := rocketmq.NewProducer(options...)
	if err != nil {
		return nil, err
	}
	if err := client.Start(); err != nil {
		return nil, err
	}
	producers.Store(request.Producer, client)
	return true, nil
}

func stopProducer(request Request) (any, error) {
	client, known := producers.LoadAndDelete(request.Producer)
	if !known {
		return nil, fmt.Errorf("there is no producer %q", request.Producer)
	}
	return true, client.(interface{ Shutdown() error }).Shutdown()
}

// "sync" waits for each answer before it sends the next message, "async" sends all at once.
func send(request Request) (any, error) {
	client, known := producers.Load(request.Producer)
	if !known {
		return nil, fmt.Errorf("there is no producer %q", request.Producer)
	}
	if request.Way == "async" {
		return sendAsync(client.(rocketmq.Producer), request.Messages)
	}
	results := []map[string]any{}
	for _, given := range request.Messages {
		result, err := client.(rocketmq.Producer).SendSync(context.Background(), message(given))
		if err != nil {
			return nil, err
		}
		results = append(results, described(result))
	}
	return results, nil
}

func sendAsync(client rocketmq.Producer, given []Outgoing) (any, error) {
	results := make([]map[string]any, len(given))
	failures := make([]error, len(given))
	var all sync.WaitGroup
	for i, one := range given {
		all.Add(1)
		err := client.SendAsync(context.Background(), func(_ context.Context, result *primitive.SendResult, err error) {
			defer all.Done()
			if failures[i] = err; err == nil {
				results[i] = described(result)
			}
		}, message(one))
		if err != nil {
			failures[i] = err
			all.Done()
		}
	}
	all.Wait()
	for _, err := range failures {
		if err != nil {
			return nil, err
		}
	}
	return results, nil
}

func message(given Outgoing) *primitive.Message {
	made := primitive.NewMessage(given.Topic, []byte(given.Body))
	for name, value := range given.Properties {
		made.WithProperty(name, value)
	}
	if given.Tags != "" {
		made.WithTag(given.Tags)
	}
	if given.Keys != "" {
		made.WithKeys([]string{given.Keys})
	}
	if given.DelayLevel > 0 {
		made.WithDelayTimeLevel(given.DelayLevel)
	}
	return made
}

func described(result *primitive.SendResult) map[string]any {
	return map[string]any{
		"status":    statuses[result.Status],
		"unique_id": result.MsgID,
		"offset_id": result.OffsetMsgID,
		"topic":     result.MessageQueue.Topic,
		"broker":    result.MessageQueue.BrokerName,
		"queue":     result.MessageQueue.QueueId,
		"offset":    result.QueueOffset,
	}
}

// traceConfig lets a client write its traces to the same cluster.
func traceConfig(namesrv string) *primitive.TraceConfig {
	return &primitive.TraceConfig{Access: primitive.Local, NamesrvAddrs: []string{namesrv}}
}

// instance returns a new name, so that each producer and each consumer is a separate client.
func instance(name string) string {
	return fmt.Sprintf("%d-%s-%d", os.Getpid(), name, time.Now().UnixNano())
}
