import { expect, test } from "vitest";
import { withPort } from "../../../../src/engines/server/ports.ts";
import { verifies } from "../../../verifies.ts";

/** The command with port 21001 in place of 8000. */
function replaced(command: string): string {
  return withPort(command.split(" "), 8000, 21_001).join(" ");
}

verifies("servers.port", "the replica's own port stands where the author's stood", () => {
  expect(replaced("uvicorn main:app --host 0.0.0.0 --port 8000")).toBe(
    "uvicorn main:app --host 127.0.0.1 --port 21001",
  );
  expect(replaced("uvicorn main:app --port=8000 --host=::")).toBe(
    "uvicorn main:app --port=21001 --host=127.0.0.1",
  );
  expect(replaced("gunicorn -b :8000 app:app")).toBe("gunicorn -b 127.0.0.1:21001 app:app");
  expect(replaced("gunicorn --bind 0.0.0.0:8000 app:app")).toBe("gunicorn --bind 127.0.0.1:21001 app:app");
  expect(replaced("gunicorn --bind=[::]:8000 app:app")).toBe("gunicorn --bind=127.0.0.1:21001 app:app");
  expect(replaced("./server -p 8000")).toBe("./server -p 21001");
  expect(replaced("./server localhost:8000")).toBe("./server localhost:21001");
  expect(replaced("./server $PORT")).toBe("./server 21001");
  expect(replaced("sh -c serve:${PORT}")).toBe("sh -c serve:21001");
  expect(replaced("serve --bind 0.0.0.0:$PORT")).toBe("serve --bind 127.0.0.1:21001");
  expect(replaced("serve --port 9000")).toBe("serve --port 21001");
});

test("what only looks like a port stays", () => {
  for (const command of [
    "serve -p 4",
    "serve -p pidfile",
    "serve main:app",
    "serve --port auto",
    "serve redis:6379",
    "serve --workers 8000",
    "serve $PORTS",
    "serve --host 10.0.0.1",
    "serve --url http://0.0.0.0:8000/x",
    "8000 8000",
  ])
    expect(replaced(command)).toBe(command);
});
