import type { Language } from "./playground-search.ts";
import { bodyOf, headersOf, protocolsOf, serverUrl, socketUrl } from "./server-call.ts";
import type { ServerCall, SocketCall } from "./server-call.ts";
import { shellWord } from "./snippets.ts";

/** A request to a server app as code; the token comes from the environment. */
export function serverSnippet(language: Language, call: ServerCall): string {
  switch (language) {
    case "curl":
      return serverCurl(call);
    case "typescript":
      return typescriptOf(call);
    case "python":
      return pythonOf(call);
    default:
      return language satisfies never;
  }
}

/** The languages that a WebSocket is shown in. */
export const SOCKET_LANGUAGES = ["typescript", "python"] as const;

/** A WebSocket as code. */
export function socketSnippet(language: (typeof SOCKET_LANGUAGES)[number], call: SocketCall): string {
  const url = JSON.stringify(socketUrl(call));
  const protocols = protocolsOf(call).map((name) => JSON.stringify(name));
  if (language === "python") {
    const chosen = protocols.length === 0 ? "" : `, subprotocols=[${protocols.join(", ")}]`;
    return `import os
from websockets.sync.client import connect

headers = {"Authorization": f"Bearer {os.environ['MILLRACE_TOKEN']}"}
with connect(${url}, additional_headers=headers${chosen}) as socket:
    socket.send("hello")
    for message in socket:
        print(message)
`;
  }
  const offered = [...protocols, '"millrace"', "`millrace.bearer.${token}`"].join(", ");
  return `const token = process.env.MILLRACE_TOKEN ?? "";
const socket = new WebSocket(${url}, [${offered}]);
socket.addEventListener("open", () => socket.send("hello"));
socket.addEventListener("message", ({ data }) => console.log(data));
socket.addEventListener("close", ({ code, reason }) => console.log(code, reason));
`;
}

/** Whether the caller gave a token of their own. */
function hasOwnToken(call: ServerCall): boolean {
  return headersOf(call).some(([name]) => name.toLowerCase() === "authorization");
}

/** How curl is told of a method: it guesses those of most requests, with a body and without. */
function curlMethod(method: string, hasBody: boolean): string {
  if (method === (hasBody ? "POST" : "GET")) return "";
  return method === "HEAD" ? "--head " : `-X ${method} `;
}

/** A request to a server app as a command; its body may be in a file. */
export function serverCurl(call: ServerCall, file: string | null = null): string {
  const body = bodyOf(call);
  const hasBody = body !== null || file !== null;
  const method = curlMethod(call.method, hasBody);
  return [
    `curl ${method}${shellWord(serverUrl(call))}`,
    ...(hasOwnToken(call) ? [] : [`-H "Authorization: Bearer $MILLRACE_TOKEN"`]),
    ...headersOf(call).map(([name, value]) => `-H ${shellWord(`${name}: ${value}`)}`),
    ...(file === null ? [] : [`--data-binary @${file}`]),
    ...(body === null ? [] : [`--data-raw ${shellWord(body)}`]),
  ].join(" \\\n  ");
}

function typescriptOf(call: ServerCall): string {
  const body = bodyOf(call);
  const headers = headersOf(call).map(
    ([name, value]) => `\n    ${JSON.stringify(name)}: ${JSON.stringify(value)},`,
  );
  const token = '\n    "Authorization": `Bearer ${process.env.MILLRACE_TOKEN}`,';
  return `const response = await fetch(${JSON.stringify(serverUrl(call))}, {
  method: ${JSON.stringify(call.method)},
  headers: {${hasOwnToken(call) ? "" : token}${headers.join("")}
  },${body === null ? "" : `\n  body: ${JSON.stringify(body)},`}
});
console.log(response.status, await response.text());
`;
}

function pythonOf(call: ServerCall): string {
  const body = bodyOf(call);
  const headers = headersOf(call).map(
    ([name, value]) => `\n        ${JSON.stringify(name)}: ${JSON.stringify(value)},`,
  );
  const token = '\n        "Authorization": f"Bearer {os.environ[\'MILLRACE_TOKEN\']}",';
  return `import os
import requests

response = requests.request(
    ${JSON.stringify(call.method)},
    ${JSON.stringify(serverUrl(call))},
    headers={${hasOwnToken(call) ? "" : token}${headers.join("")}
    },${body === null ? "" : `\n    data=${JSON.stringify(body)}.encode(),`}
)
print(response.status_code, response.text)
`;
}
