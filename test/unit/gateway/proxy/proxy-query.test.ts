import { expect, test } from "vitest";
import { readTarget } from "../../../../src/gateway/proxy/proxy-query.ts";

const PLAIN = { isAsync: false, webhookEndpoint: null };

test("what is ours is taken out of a POST's query, and the rest stays as it came", () => {
  expect(readTarget("/a?x=%20&async=true&y=1+2", "POST")).toEqual({
    target: "/a?x=%20&y=1+2",
    query: { isAsync: true, webhookEndpoint: null },
  });
  expect(readTarget("/a?webhookEndpoint=http%3A%2F%2Fx%2F&async=true", "POST")).toEqual({
    target: "/a",
    query: { isAsync: true, webhookEndpoint: "http://x/" },
  });
  expect(readTarget("/a?%61sync=true", "POST")).toMatchObject({ target: "/a", query: { isAsync: true } });
  expect(readTarget("/a?async=false&&", "POST")).toEqual({ target: "/a?&", query: PLAIN });
});

test("other queries and other methods are the app's alone", () => {
  for (const target of ["/a", "/a?", "/a?x=1", "/a?asynchronous=1", "/a?x=async"])
    expect(readTarget(target, "POST")).toEqual({ target, query: PLAIN });
  expect(readTarget("/a?async=maybe", "GET")).toEqual({ target: "/a?async=maybe", query: PLAIN });
  expect(() => readTarget("/a?async=maybe", "POST")).toThrow("async must be true or false");
});
