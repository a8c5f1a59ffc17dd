/** Whether an Accept header asks for server-sent events by name. */
export function wantsEvents(accept: string | null): boolean {
  return accept !== null && listed(accept, "text/event-stream") === true;
}

/** Whether an Accept-Encoding header allows gzip. */
export function takesGzip(acceptEncoding: string | null): boolean {
  if (acceptEncoding === null) return false;
  return listed(acceptEncoding, "gzip") ?? listed(acceptEncoding, "*") ?? false;
}

/** True for a name in the list, false for one with `q=0`, null for one that is not there. */
function listed(list: string, name: string): boolean | null {
  for (const item of list.split(",")) {
    const [value = "", ...parameters] = item.split(";").map((part) => part.trim().toLowerCase());
    if (value !== name) continue;
    return !parameters.some((parameter) => /^q\s*=\s*0(?:\.0{0,3})?$/.test(parameter));
  }
  return null;
}
