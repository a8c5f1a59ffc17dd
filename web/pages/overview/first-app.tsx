import { Link } from "@tanstack/react-router";
import { installation } from "../../api/installation.ts";
import { Card } from "../../parts/card.tsx";
import { CodeBlock } from "../../parts/copy.tsx";

/** How a project gets its first app, and the first call of it. */
export function FirstApp({ projectId }: { readonly projectId: string }) {
  const call = `curl ${installation.apiUrl}/v4/${projectId}/hi/run \\
  -H "Authorization: Bearer $TOKEN" \\
  -H "Content-Type: application/json" \\
  -d '{"name": "Ada"}'`;
  return (
    <Card title="Deploy your first app">
      <ol className="flex max-w-3xl list-decimal flex-col gap-5 pl-5">
        <li>
          <p className="mb-1.5">
            <b>Create an app and deploy it.</b> A folder with a <code>main.py</code> is enough; every function
            in it can be called.
          </p>
          <CodeBlock label="Deploy" text={`millrace init hi && millrace deploy hi`} />
        </li>
        <li>
          <p className="mb-1.5">
            <b>Create a key</b> for what will call it, on{" "}
            <Link to="/projects/$projectId/keys" params={{ projectId }} className="text-accent underline">
              API keys
            </Link>
            .
          </p>
        </li>
        <li>
          <p className="mb-1.5">
            <b>Call it.</b> With <code>?async=true</code> it runs in the background; the run shows up here.
          </p>
          <CodeBlock label="Call" text={call} />
        </li>
      </ol>
    </Card>
  );
}
