import { useMutation } from "@tanstack/react-query";
import { useEffect, useState } from "react";
import { tellError } from "../../parts/toasts.tsx";
import { MAX_ROWS } from "./run-list.ts";
import type { RunList } from "./run-list.ts";

export const PAGE_SIZE = 50;

type Older = {
  readonly isSearching: boolean;
  /** How far back everything was looked through, if the last page was not full. */
  readonly searchedTo: string | null;
  /** Goes on until there are that many more, or no older ones. */
  readonly load: () => void;
  readonly stop: () => void;
};

/**
 * Reads older runs of a list until it holds a page more. What no index finds, the service looks for in many runs at a time,
 * and may find none: the search then goes on by itself. `read` reads from a place, adds what it finds to the list, and
 * resolves with how far it has searched, if that was not to the end of a full page.
 */
export function useOlder(
  { rows, olderToken }: Pick<RunList<{ readonly id: string }>, "rows" | "olderToken">,
  read: (nextToken: string) => Promise<string | null>,
): Older {
  const [wanted, setWanted] = useState(PAGE_SIZE);
  const [searchedTo, setSearchedTo] = useState<string | null>(null);
  const { mutate, isPending } = useMutation({
    mutationFn: read,
    onSuccess: setSearchedTo,
    onError: (error) => {
      setWanted(0);
      tellError(error);
    },
  });
  const isWanting = rows.length < Math.min(wanted, MAX_ROWS) && Boolean(olderToken);
  useEffect(() => {
    if (isWanting && olderToken && !isPending) mutate(olderToken);
  }, [isWanting, olderToken, isPending, mutate]);
  return {
    isSearching: isWanting || isPending,
    searchedTo,
    load: () => setWanted(rows.length + PAGE_SIZE),
    stop: () => setWanted(0),
  };
}
