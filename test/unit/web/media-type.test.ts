import { expect, test } from "vitest";
import { isEventType, isTextType } from "../../../web/api/media-type.ts";

test("what people can read is text, whatever stands behind its type", () => {
  const readable = [
    "",
    "text/html; charset=utf-8",
    "application/json",
    "application/problem+json; charset=utf-8",
    "application/atom+xml",
    "application/x-ndjson",
    "Text/Plain",
  ];
  const others = ["application/octet-stream", "image/png", "audio/mpeg", "application/jsonp", "x-text/plain"];
  expect(readable.filter((type) => !isTextType(type))).toEqual([]);
  expect(others.filter(isTextType)).toEqual([]);
});

test("a stream of events is known by its type", () => {
  expect(isEventType("text/event-stream;charset=utf-8")).toBe(true);
  expect(isEventType("text/plain")).toBe(false);
});
