// Command compatibility runs features of the official Go client, and prints one line of JSON for each.
//
// A feature is a check with a topic and a group of its own. Some are run at the same time, because most of their time is
// waiting.
//
//	program NAMESRV PREFIX [FEATURE…]
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	atATime    = 6
	featureMax = 90 * time.Second // this client looks for new members and queues every 20 s
)

type feature struct {
	name  string
	check func(*lab)
}

func main() {
	arguments := os.Args[1:]
	var all sync.WaitGroup
	free := make(chan bool, atATime)
	for _, each := range slices.Concat(sending, transactions, consuming, administration) {
		if len(arguments) > 2 && !slices.Contains(arguments[2:], each.name) {
			continue
		}
		all.Add(1)
		free <- true
		go func() {
			defer func() { <-free; all.Done() }()
			report(each, arguments[0], arguments[1]+"-"+each.name)
		}()
	}
	all.Wait()
}

var printing sync.Mutex

func report(each feature, namesrv, name string) {
	done := make(chan string, 1)
	l := &lab{namesrv: namesrv, topic: name, group: name}
	go func() {
		defer func() {
			if problem := recover(); problem != nil {
				done <- fmt.Sprint(problem)
			}
		}()
		each.check(l)
		done <- ""
	}()
	why := ""
	select {
	case why = <-done:
	case <-time.After(featureMax):
		why = "not finished in " + featureMax.String()
	}
	outcome := "works"
	if why != "" {
		outcome = "fails"
	}
	line, _ := json.Marshal(struct {
		Feature string `json:"feature"`
		Outcome string `json:"outcome"`
		Why     string `json:"why"`
	}{each.name, outcome, strings.ToValidUTF8(why, "?")})
	printing.Lock()
	fmt.Println(string(line))
	printing.Unlock()
	l.close()
}
