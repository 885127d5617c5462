package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"

	"example.com/drones/api"
)

// follower reads actions as Server-Sent Events. Its cursor is the id of the last event that had
// one; actions behind it may come again after a reconnect, so their ids are kept as well.
type follower struct {
	s      station
	cursor string
	acted  map[string]bool
}

// until returns the ids of the next actions, and hangs up.
func (f *follower) until(ctx context.Context, count int) ([]string, error) {
	ctx, hangUp := context.WithCancel(ctx)
	defer hangUp()
	agent := "Drone"
	params := &api.ActionsParams{Agent: &agent, Key: &f.s.key, LastEventID: &f.cursor}
	response, err := f.s.client.ClientInterface.Actions(ctx, params, asStream)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(response.Body)
		return nil, fmt.Errorf("%s: %s", response.Status, text)
	}
	var found []string
	lines := bufio.NewReader(response.Body)
	for len(found) < count {
		event, err := nextEvent(lines)
		if err != nil {
			return nil, fmt.Errorf("the stream ended after %d of %d actions: %w", len(found), count, err)
		}
		if event["id"] != "" {
			f.cursor = event["id"]
		}
		if event["event"] == "problem" {
			return nil, fmt.Errorf("the stream ended: %s", event["data"])
		}
		if event["event"] != "action" {
			continue
		}
		id, err := actionID(event["data"])
		if err != nil {
			return nil, err
		}
		if !f.acted[id] {
			f.acted[id] = true
			found = append(found, id)
		}
	}
	return found, nil
}

func asStream(_ context.Context, request *http.Request) error {
	request.Header.Set("Accept", "text/event-stream")
	return nil
}

// nextEvent reads up to an empty line; comments have no name.
func nextEvent(lines *bufio.Reader) (map[string]string, error) {
	event := map[string]string{}
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			return nil, err
		}
		line = strings.TrimRight(line, "\r\n")
		if line == "" {
			return event, nil
		}
		name, value, _ := strings.Cut(line, ":")
		event[name] = strings.TrimPrefix(value, " ")
	}
}

func actionID(data string) (string, error) {
	var action api.Action
	if err := json.Unmarshal([]byte(data), &action); err != nil {
		return "", err
	}
	value, err := action.ValueByDiscriminator()
	if err != nil {
		return "", err
	}
	switch action := value.(type) {
	case api.ActionDescend:
		return action.Id, nil
	case api.ActionLand:
		return action.Id, nil
	}
	return "", fmt.Errorf("an action that this program does not know: %s", data)
}
