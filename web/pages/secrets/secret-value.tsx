import { useState } from "react";
import { Button } from "../../parts/button.tsx";
import { Copy } from "../../parts/copy.tsx";
import { count } from "../../parts/format.ts";

/** A longer one is cut; Copy takes the whole. */
const MAX_CHARS = 500;

/** A secret's value, hidden until it is asked for. */
export function SecretValue({ name, value }: { readonly name: string; readonly value: string }) {
  const [isShown, setShown] = useState(false);
  return (
    <span className="flex items-center gap-2">
      {isShown ? (
        <span className="min-w-0 py-1.5 font-mono text-[0.92rem] break-all whitespace-pre-wrap">
          {value === "" ? <span className="text-ink-faint">empty</span> : value.slice(0, MAX_CHARS)}
          {value.length > MAX_CHARS && `… ${count(value.length - MAX_CHARS)} characters more`}
        </span>
      ) : (
        <span aria-label="hidden" role="img" className="text-ink-soft">
          ••••••••
        </span>
      )}
      <Button
        size="small"
        look="quiet"
        aria-label={`${isShown ? "Hide" : "Show"} ${name}`}
        onClick={() => setShown(!isShown)}
      >
        {isShown ? "Hide" : "Show"}
      </Button>
      {isShown && <Copy text={value} />}
    </span>
  );
}
