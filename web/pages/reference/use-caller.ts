import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { meQuery } from "../../api/me.ts";
import { session } from "../../api/session.ts";
import { useSession } from "../../api/use-session.ts";

/** As whom requests are sent: the person who is signed in, or the holder of a token that was pasted. */
export type Caller = {
  readonly isReady: boolean;
  /** The address of the person who is signed in; null where there is none, or not yet. */
  readonly email: string | null;
  readonly isSignedIn: boolean;
  /** Their first project, to begin with. */
  readonly projectId: string | null;
  readonly pasted: string;
  readonly paste: (token: string) => void;
  /** A token that is good now. What was pasted goes before the session, and stays in this page's memory. */
  readonly token: () => Promise<string | null>;
};

export function useCaller(): Caller {
  const { state } = useSession();
  const [pasted, paste] = useState("");
  const isSignedIn = state === "in";
  const { data: me } = useQuery({ ...meQuery, enabled: isSignedIn });
  return {
    isReady: isSignedIn || pasted !== "",
    email: me?.email ?? null,
    isSignedIn,
    projectId: me?.projects[0]?.id ?? null,
    pasted,
    paste: (token) => paste(token.trim()),
    token: async () => (pasted === "" ? await session.token() : pasted),
  };
}
