package main

import (
	"context"
	"sync"

	"github.com/apache/rocketmq-client-go/v2/admin"
	"github.com/apache/rocketmq-client-go/v2/primitive"
)

// createTopics asks one broker for several topics at the same moment.
func createTopics(request Request) (any, error) {
	tool, err := admin.NewAdmin(admin.WithResolver(primitive.NewPassthroughResolver([]string{namesrv})))
	if err != nil {
		return nil, err
	}
	defer tool.Close()
	failures := make([]error, len(request.Topics))
	var all sync.WaitGroup
	for i, topic := range request.Topics {
		all.Add(1)
		go func() {
			defer all.Done()
			failures[i] = tool.CreateTopic(context.Background(),
				admin.WithTopicCreate(topic),
				admin.WithBrokerAddrCreate(request.Broker),
				admin.WithReadQueueNums(request.Queues),
				admin.WithWriteQueueNums(request.Queues))
		}()
	}
	all.Wait()
	for _, err := range failures {
		if err != nil {
			return nil, err
		}
	}
	return true, nil
}
