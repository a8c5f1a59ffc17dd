const TEXT =
  /^text\/|^application\/(?:[\w.-]{1,100}\+)?(?:json|xml)\b|^application\/(?:x-ndjson|javascript|x-www-form-urlencoded)\b/i;

/** Whether what has that content type can be read; one that names none is taken for text. */
export function isTextType(contentType: string): boolean {
  return contentType === "" || TEXT.test(contentType);
}

/** Whether it comes message by message. */
export function isEventType(contentType: string): boolean {
  return contentType.startsWith("text/event-stream");
}
