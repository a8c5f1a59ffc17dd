import { memo, useLayoutEffect, useRef, useState } from "react";
import type { BuildIds, BuildLine } from "../../../api/build-log.ts";
import { Badge } from "../../../parts/badge.tsx";
import { Button } from "../../../parts/button.tsx";
import { Card } from "../../../parts/card.tsx";
import { classes } from "../../../parts/classes.ts";
import { Copy } from "../../../parts/copy.tsx";
import { count } from "../../../parts/format.ts";
import { Problem } from "../../../parts/problem.tsx";
import { saveText } from "../../../parts/save-text.ts";
import { Skeleton } from "../../../parts/skeleton.tsx";
import { plainLine } from "../../../parts/plain-line.ts";
import { useBuildLog } from "./use-build-log.ts";

/** The end of a long log is shown first; the whole has at most 20,000 lines. */
const SHOWN_LINES = 2_000;
/** Lines are drawn in pieces, so that a new one draws only the last piece again. */
const PIECE_LINES = 200;
const MAX_LINE_CHARS = 4_000;
const NEAR_END_PX = 40;

/** A build's log; its end stays in sight while it grows, unless one has scrolled away from it. */
export function BuildLog(ids: BuildIds) {
  const { lines, hasEnded, error } = useBuildLog(ids);
  const [isWhole, setWhole] = useState(false);
  const box = useRef<HTMLDivElement>(null);
  const isAtEnd = useRef(true);
  useLayoutEffect(() => {
    if (lines.length > 0 && isAtEnd.current && box.current) box.current.scrollTop = box.current.scrollHeight;
  }, [lines]);
  const onScroll = (): void => {
    const element = box.current;
    if (!element) return;
    isAtEnd.current = element.scrollHeight - element.scrollTop - element.clientHeight < NEAR_END_PX;
  };
  const hidden = isWhole ? 0 : hiddenOf(lines.length);
  const text = lines.map((line) => line.text).join("\n");
  return (
    <Card
      isFlush
      title="Log"
      actions={
        <>
          {!hasEnded && !error && <Badge tone="busy">following</Badge>}
          <Copy text={text} />
          <Button size="small" onClick={() => saveText(`${ids.appName}-${ids.buildId}.log`, text)}>
            Download
          </Button>
        </>
      }
    >
      {error !== null && <Problem error={error} />}
      <div
        ref={box}
        onScroll={onScroll}
        tabIndex={0}
        role="log"
        aria-label="Build log"
        className="h-[28rem] max-h-[70vh] overflow-y-auto bg-sunken py-2 font-mono text-[0.86rem]"
      >
        {hidden > 0 && (
          <p className="px-4 pb-2">
            <Button size="small" onClick={() => setWhole(true)}>
              Show {count(hidden)} lines before
            </Button>
          </p>
        )}
        {piecesOf(lines, hidden).map((piece) => (
          <Piece key={piece[0]!.number} lines={piece} length={piece.length} startedAt={lines[0]!.at} />
        ))}
        {lines.length === 0 && !error && (
          <div className="px-4">
            {hasEnded ? (
              <p className="text-ink-faint">The log is empty.</p>
            ) : (
              <Skeleton className="h-4 w-64" />
            )}
          </div>
        )}
      </div>
    </Card>
  );
}

/** Whole pieces: else every line would move to another piece with each new one. */
function hiddenOf(lineCount: number): number {
  return Math.max(0, Math.floor((lineCount - SHOWN_LINES) / PIECE_LINES) * PIECE_LINES);
}

function piecesOf(lines: readonly BuildLine[], from: number): (readonly BuildLine[])[] {
  const pieces = [];
  for (let first = from; first < lines.length; first += PIECE_LINES) {
    pieces.push(lines.slice(first, first + PIECE_LINES));
  }
  return pieces;
}

type PieceProps = {
  readonly lines: readonly BuildLine[];
  readonly length: number;
  readonly startedAt: string;
};

/** Lines only ever come: a piece with as many as before is the same. */
const Piece = memo(
  function Piece({ lines, startedAt }: PieceProps) {
    const start = Date.parse(startedAt);
    return (
      <>
        {lines.map(({ number, at, text, isError }) => (
          <div key={number} className="flex gap-3 px-4 hover:bg-line/40">
            <time
              dateTime={at}
              className="tabular w-14 shrink-0 text-right text-ink-faint select-none max-sm:hidden"
            >
              {((Date.parse(at) - start) / 1_000).toFixed(2)} s
            </time>
            <span
              className={classes(
                "min-w-0 flex-1 break-words whitespace-pre-wrap",
                isError ? "text-bad" : "text-ink",
              )}
            >
              {shownText(text)}
            </span>
          </div>
        ))}
      </>
    );
  },
  (before, after) => before.length === after.length && before.lines[0]?.id === after.lines[0]?.id,
);

function shownText(text: string): string {
  const plain = plainLine(text.slice(0, MAX_LINE_CHARS));
  if (text.length > MAX_LINE_CHARS) return `${plain}… ${count(text.length - MAX_LINE_CHARS)} characters more`;
  // Without anything in it the line would have no height.
  return plain === "" ? " " : plain;
}
