package main

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	rocketmq "github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
)

// transactional ends its local transactions as the test says. This client's listener gets no argument, so the states
// are kept by the messages' keys.
type transactional struct {
	rocketmq.TransactionProducer
	name   string
	checks map[string]string // the answers to checks, by keys; UNKNOW for others
}

var states = map[string]primitive.LocalTransactionState{
	"COMMIT_MESSAGE":   primitive.CommitMessageState,
	"ROLLBACK_MESSAGE": primitive.RollbackMessageState,
	"UNKNOW":           primitive.UnknowState,
}

var (
	conclusions sync.Map // keys → chan string
	consumed    sync.Map // keys → *primitive.MessageExt, of requests only
)

func conclusion(keys string) chan string {
	promise, _ := conclusions.LoadOrStore(keys, make(chan string, 1))
	return promise.(chan string)
}

func startTransactional(request Request, options []producer.Option) (any, error) {
	made := &transactional{name: request.Producer, checks: request.Checks}
	client, err := rocketmq.NewTransactionProducer(made, options...)
	if err != nil {
		return nil, err
	}
	made.TransactionProducer = client
	producers.Store(request.Producer, made)
	return true, client.Start()
}

func (t *transactional) ExecuteLocalTransaction(message *primitive.Message) primitive.LocalTransactionState {
	keys := strings.TrimSpace(message.GetKeys())
	write(map[string]any{"event": "executing", "keys": keys})
	return states[<-conclusion(keys)]
}

func (t *transactional) CheckLocalTransaction(message *primitive.MessageExt) primitive.LocalTransactionState {
	keys := strings.TrimSpace(message.GetKeys())
	state, known := t.checks[keys]
	if !known {
		state = "UNKNOW"
	}
	write(map[string]any{"event": "checked", "keys": keys, "state": state, "producer": t.name})
	return states[state]
}

func sendInTransaction(request Request) (any, error) {
	client, known := producers.Load(request.Producer)
	if !known {
		return nil, fmt.Errorf("there is no producer %q", request.Producer)
	}
	if request.State != "" {
		conclusion(request.Message.Keys) <- request.State
	}
	result, err := client.(*transactional).SendMessageInTransaction(context.Background(), message(request.Message))
	if err != nil {
		return nil, err
	}
	told := described(result.SendResult)
	for name, state := range states {
		if state == result.State {
			told["state"] = name
		}
	}
	return told, nil
}

func conclude(request Request) (any, error) {
	conclusion(request.Keys) <- request.State
	return true, nil
}

func request(request Request) (any, error) {
	client, known := producers.Load(request.Producer)
	if !known {
		return nil, fmt.Errorf("there is no producer %q", request.Producer)
	}
	timeout := time.Duration(request.TimeoutMs) * time.Millisecond
	reply, err := client.(rocketmq.Producer).Request(context.Background(), timeout, message(request.Message))
	if err != nil {
		return nil, err
	}
	return string(reply.Body), nil
}

func keepRequest(message *primitive.MessageExt) {
	if message.GetProperty(primitive.PropertyCorrelationID) != "" {
		consumed.Store(strings.TrimSpace(message.GetKeys()), message)
	}
}

// reply replies to the request with these keys.
func reply(request Request) (any, error) {
	client, known := producers.Load(request.Producer)
	if !known {
		return nil, fmt.Errorf("there is no producer %q", request.Producer)
	}
	asked, known := consumed.Load(request.Keys)
	if !known {
		return nil, fmt.Errorf("no request %q was consumed", request.Keys)
	}
	made, err := consumer.CreateReplyMessage(asked.(*primitive.MessageExt), nil)
	if err != nil {
		return nil, err
	}
	made.Body = []byte(request.Body) // CreateReplyMessage takes its argument for properties
	result, err := client.(rocketmq.Producer).SendSync(context.Background(), made)
	if err != nil {
		return nil, err
	}
	return statuses[result.Status], nil
}
