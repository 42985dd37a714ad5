// Inputs that nobody needs any more once they are read. The twin of mark_donatable() in graph.cpp.

// In which event each storage dies, and where the next birth stands from each event on.
class Deaths {
  constructor({ values, storages, events }) {
    this.values = values;
    this.death = storages.map(() => events.length);
    this.nextBirth = new Array(events.length + 1).fill(events.length);
    for (let i = events.length; i-- > 0;) {
      this.nextBirth[i] = events[i].birth ? i : this.nextBirth[i + 1];
      if (!events[i].birth) this.death[events[i].storage] = i;
    }
  }

  // Of a node that was recorded before this event.
  donatableInputs(node, event) {
    const { storage: made } = this.values[node.output];
    return node.inputs.flatMap((input, i) => {
      const { storage } = this.values[input], death = this.death[storage];
      const comesFirst = event <= death && death < this.nextBirth[event];
      return comesFirst && storage !== made ? [i] : [];
    });
  }
}

// By node: the first event after the step that records it or runs it again; undefined without one.
function eventsAfter({ nodes, steps, events }) {
  const after = nodes.map(() => undefined);
  let event = 0;
  steps.forEach(({ node, phase }, step) => {
    while (event < events.length && events[event].step <= step) ++event;
    if (node >= 0 && (phase === "forward" || nodes[node].recomputed)) after[node] ??= event;
  });
  return after;
}

/** The graph with the donatable inputs of every node marked anew, by its events. */
export function withDonatable(graph) {
  const deaths = new Deaths(graph), after = eventsAfter(graph);
  const nodes = graph.nodes.map((node, id) => ({ ...node, donatable: after[id] === undefined ? []
    : deaths.donatableInputs(node, after[id]) }));
  return { ...graph, nodes };
}
