import { useNavigate } from "@tanstack/react-router";
import { useState } from "react";
import type { ReactNode } from "react";
import { LANGUAGES } from "../../../../api/playground-search.ts";
import type { PlaygroundSearch } from "../../../../api/playground-search.ts";
import type { RequestDraft } from "../../../../api/request-of-run.ts";
import { SOCKET_LANGUAGES, serverSnippet, socketSnippet } from "../../../../api/server-snippets.ts";
import { Card } from "../../../../parts/card.tsx";
import { Picker } from "../../../../parts/picker.tsx";
import { AsCode } from "../as-code.tsx";
import { RequestAnswer } from "./request-answer.tsx";
import { RequestForm } from "./request-form.tsx";
import { SocketForm, SocketMessages } from "./socket-console.tsx";
import { useRequest } from "./use-request.ts";
import { useSocket } from "./use-socket.ts";

type Props = {
  readonly projectId: string;
  readonly appName: string;
  readonly search: PlaygroundSearch;
  /** What to begin with. */
  readonly given: RequestDraft;
};

type Change = (change: PlaygroundSearch) => void;

/** A server to talk to, by requests or by a WebSocket; what came back, and the same as code. */
export function ServerWorkbench(props: Props) {
  const { projectId, appName, search } = props;
  const navigate = useNavigate();
  const to = "/projects/$projectId/apps/$appName/playground" as const;
  const go = (next: PlaygroundSearch): void =>
    void navigate({ to, params: { projectId, appName }, search: next, replace: true, resetScroll: false });
  const { kind, ...rest } = search;
  const picker = (
    <Picker
      label="Kind"
      names={["request", "websocket"]}
      titles={{ request: "Request", websocket: "WebSocket" }}
      picked={kind ?? "request"}
      onPick={(name) => go(name === "websocket" ? { ...rest, kind: name } : rest)}
    />
  );
  const shared = { ...props, picker, onSearch: (change: PlaygroundSearch) => go({ ...search, ...change }) };
  return (
    <div className="grid grid-cols-1 items-start gap-4 lg:grid-cols-2">
      {kind === "websocket" ? <Sockets {...shared} /> : <Requests {...shared} />}
    </div>
  );
}

type PartProps = Props & { readonly picker: ReactNode; readonly onSearch: Change };

function Requests({ projectId, appName, search, given, picker, onSearch }: PartProps) {
  const [draft, setDraft] = useState(given);
  const request = useRequest();
  const call = { ...draft, projectId, appName };
  const { code = "curl", view = "messages" } = search;
  return (
    <>
      <Card title="Request" actions={picker}>
        <RequestForm
          draft={draft}
          onChange={setDraft}
          isBusy={request.isBusy}
          onSend={() => request.send(call)}
          onStop={request.stop}
        />
      </Card>
      <div className="flex min-w-0 flex-col gap-4">
        <RequestAnswer
          projectId={projectId}
          appName={appName}
          request={request}
          view={view}
          onView={(next) => onSearch({ view: next })}
        />
        <AsCode
          languages={LANGUAGES}
          picked={code}
          onPick={(name) => onSearch({ code: name })}
          text={serverSnippet(code, call)}
        />
      </div>
    </>
  );
}

function Sockets({ projectId, appName, search, given, picker, onSearch }: PartProps) {
  const [draft, setDraft] = useState({ path: given.path, protocols: "" });
  const socket = useSocket();
  const call = { ...draft, projectId, appName };
  const code = search.code === "python" ? "python" : "typescript";
  return (
    <>
      <Card title="WebSocket" actions={picker}>
        <SocketForm
          socket={socket}
          draft={draft}
          onChange={setDraft}
          onConnect={() => socket.connect(call)}
        />
      </Card>
      <div className="flex min-w-0 flex-col gap-4">
        <SocketMessages socket={socket} />
        <AsCode
          languages={SOCKET_LANGUAGES}
          picked={code}
          onPick={(name) => onSearch({ code: name })}
          text={socketSnippet(code, call)}
        />
      </div>
    </>
  );
}
