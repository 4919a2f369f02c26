// Arrows between slices: from what the server tells of a slice, or of all that is in sight.

/** The flows of a slice, from the details of it. */
export function flowsOf(details) {
  const place = ({ track, depth, start_ns: start, duration_ns: duration }) => ({ track, depth, start, end: start + duration });
  const self = place(details);
  const found = [];
  if (details.work?.launch) found.push({ kind: 'launch', source: place(details.work.launch), target: self });
  for (const one of details.launched?.first ?? []) found.push({ kind: 'launch', source: self, target: place(one) });
  for (const flow of details.flows) {
    const [source, target] = flow.direction === 'to' ? [self, place(flow)] : [place(flow), self];
    found.push({ kind: flow.kind, source, target });
  }
  return found;
}

/** The flows of all that is in sight, faint; none where there are too many. */
export function flowsIn(answer) {
  const place = ([track, depth, start, end]) => ({ track, depth, start, end });
  return (answer.flows ?? []).map((flow) => ({
    kind: flow.kind,
    source: place(flow.source),
    target: place(flow.target),
    isFaint: true,
  }));
}
