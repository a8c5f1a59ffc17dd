import { expect, test } from "vitest";
import { KnownPaths } from "../../../../src/management/api/listener.ts";

const paths = new KnownPaths();
paths.add("/", ["GET"]);
paths.add("/apps", ["GET", "POST"]);
paths.add("/apps/:id", ["DELETE"]);
paths.add("/apps/new", ["PUT"]);
paths.add("/apps/:id/runs", ["PATCH"]);
paths.add("/pages/*", ["HEAD"]);

test.each([
  ["/", ["GET"]],
  ["/apps", ["GET", "POST"]],
  ["/apps?x=/a/b#c", ["GET", "POST"]],
  ["/%61pps", ["GET", "POST"]],
  ["/apps/a%2Fb", ["DELETE"]],
  ["/apps/new", ["PUT"]],
  ["/apps/new/runs", ["PATCH"]],
  ["/pages/a/b", ["HEAD"]],
])("%s takes %j", (target, methods) => {
  expect(paths.methodsAt(target)).toEqual(methods);
});

test.each(["/nowhere", "/apps/a/b", "/apps/a/runs/b", "/Apps", "//", "/%zz", "", "*", "apps"])(
  "%s is none of them",
  (target) => {
    expect(paths.methodsAt(target)).toBeNull();
  },
);
