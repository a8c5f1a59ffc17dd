/** How many JSON values are inside a parsed one, at any depth; counts no further than `max`. */
export function countValues(value: unknown, max: number): number {
  let count = 0;
  const rest = [value];
  while (rest.length > 0 && count < max) {
    const each = rest.pop();
    if (typeof each !== "object" || each === null) continue;
    const members: unknown[] = Object.values(each);
    count += members.length;
    // One by one: a call takes no more arguments than the stack has room for.
    for (const member of members) rest.push(member);
  }
  return Math.min(count, max);
}
