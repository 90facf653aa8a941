package main

import (
	"fmt"
	"strings"

	"github.com/anishathalye/porcupine"
)

// A state is what some blobs hold, each at its place. States are never changed, only copied.
type state []content

// A content is what one blob holds. Strings, so that it can be compared.
type content struct {
	exists bool
	// Registers and counters by part; what was never written is not told from zero.
	registers [registersMax]uint64
	// A list by its length, and a digest of its elements.
	length uint64
	digest uint64
}

const registersMax = 4

func extend(digest, element uint64) uint64 {
	// FNV-1a over the element's bytes.
	for shift := 0; shift < 64; shift += 8 {
		digest = (digest ^ (element >> shift & 0xff)) * 1099511628211
	}
	return digest
}

// A component is a set of blobs that some operations touch together. It is checked on its own: what happens to other blobs
// does not matter to it, and a history is linearizable if all its components are.
type component struct {
	operations []*operation
	places     map[blob]int
}

// components cuts a history into the smallest parts that share no blob.
func components(operations []*operation) []*component {
	parents := map[blob]blob{}
	var root func(b blob) blob
	root = func(b blob) blob {
		parent, known := parents[b]
		if !known || parent == b {
			parents[b] = b
			return b
		}
		found := root(parent)
		parents[b] = found
		return found
	}
	for _, o := range operations {
		blobs := o.blobs()
		for _, b := range blobs {
			parents[root(b)] = root(blobs[0])
		}
	}
	byRoot := map[blob]*component{}
	var found []*component
	for _, o := range operations {
		blobs := o.blobs()
		if len(blobs) == 0 {
			continue
		}
		c := byRoot[root(blobs[0])]
		if c == nil {
			c = &component{places: map[blob]int{}}
			byRoot[root(blobs[0])] = c
			found = append(found, c)
		}
		c.operations = append(c.operations, o)
		for _, b := range blobs {
			if _, known := c.places[b]; !known {
				c.places[b] = len(c.places)
			}
		}
	}
	return found
}

// model says what a store with these blobs may answer.
func (c *component) model() porcupine.Model {
	return porcupine.Model{
		Init: func() interface{} { return make(state, len(c.places)) },
		Step: func(before, input, _ interface{}) (bool, interface{}) {
			o := input.(*operation)
			after := append(state(nil), before.(state)...)
			for i := range o.actions {
				if !c.step(after, &o.actions[i]) {
					// One of unknown outcome that is not possible here was refused, or comes later, or never.
					return !o.committed, before
				}
			}
			return true, after
		},
		Equal: func(a, b interface{}) bool {
			x, y := a.(state), b.(state)
			for i := range x {
				if x[i] != y[i] {
					return false
				}
			}
			return true
		},
		DescribeOperation: func(input, _ interface{}) string { return input.(*operation).String() },
		DescribeState:     func(s interface{}) string { return fmt.Sprint(s) },
	}
}

// step does one action to the state, and says whether the store may have answered so.
func (c *component) step(s state, a *action) bool {
	switch {
	case a.Read != nil:
		return reads(s[c.places[a.Read.blob()]].registers[a.Read[1]], a.Value)
	case a.Write != nil:
		to := &s[c.places[a.Write.blob()]]
		to.exists = true
		to.registers[a.Write[1]] = *a.Value
	case a.Add != nil:
		to := &s[c.places[a.Add.blob()]]
		if a.Old != nil && *a.Old != to.registers[a.Add[1]] {
			return false
		}
		to.exists = true
		to.registers[a.Add[1]] += a.Operand
	case a.ReadList != nil:
		from := s[c.places[*a.ReadList]]
		var digest uint64
		for _, element := range a.Elements {
			digest = extend(digest, element)
		}
		return uint64(len(a.Elements)) == from.length && digest == from.digest
	case a.Append != nil:
		to := &s[c.places[*a.Append]]
		if a.Offset != nil && *a.Offset != to.length {
			return false
		}
		to.exists = true
		to.length++
		to.digest = extend(to.digest, a.Element)
	case a.Create != nil:
		to := &s[c.places[*a.Create]]
		if to.exists {
			return false
		}
		to.exists = true
	case a.Delete != nil:
		to := &s[c.places[*a.Delete]]
		if !to.exists {
			return false
		}
		*to = content{}
	case a.Exists != nil:
		return s[c.places[*a.Exists]].exists == a.There
	}
	return true
}

// reads says whether a register may have been read so. Where nothing was written there are zeros, or no bytes at all.
func reads(held uint64, seen *uint64) bool {
	if seen == nil {
		return held == 0
	}
	return *seen == held
}

func (o *operation) String() string {
	var b strings.Builder
	outcome := "unknown"
	if o.committed {
		outcome = fmt.Sprint(o.answer)
	}
	fmt.Fprintf(&b, "%d %s, %d..%s us, process %d:", o.id, o.label, o.call, outcome, o.process)
	for _, a := range o.actions {
		b.WriteString(" " + a.String() + ";")
	}
	return b.String()
}

func (a *action) String() string {
	shown := func(value *uint64) string {
		if value == nil {
			return "none"
		}
		return fmt.Sprint(*value)
	}
	switch {
	case a.Read != nil:
		return fmt.Sprintf("read %v = %s", *a.Read, shown(a.Value))
	case a.Write != nil:
		return fmt.Sprintf("write %v = %s", *a.Write, shown(a.Value))
	case a.Add != nil:
		return fmt.Sprintf("add %d to %v (was %s)", a.Operand, *a.Add, shown(a.Old))
	case a.ReadList != nil:
		return fmt.Sprintf("read list %d = %v", *a.ReadList, a.Elements)
	case a.Append != nil:
		return fmt.Sprintf("append %d to %d at %s", a.Element, *a.Append, shown(a.Offset))
	case a.Create != nil:
		return fmt.Sprintf("create %d", *a.Create)
	case a.Delete != nil:
		return fmt.Sprintf("delete %d", *a.Delete)
	case a.Exists != nil:
		return fmt.Sprintf("%d is there: %t", *a.Exists, a.There)
	}
	return "scan"
}
