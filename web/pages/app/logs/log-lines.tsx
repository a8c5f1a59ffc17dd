import { useEffect, useLayoutEffect, useRef, useState } from "react";
import type { ReactNode, RefObject } from "react";
import { LogRow } from "./log-row.tsx";
import type { NumberedLine } from "./log-view.ts";

/** Lines come into the page and leave it by so many. */
const BLOCK_LINES = 100;
/** What a line takes that is not broken; a block far away has as much for each. */
const LINE_PX = 19.25;
/** Blocks this near to what is seen are there already. */
const AHEAD_PX = 800;
/** As good as at the end. */
const NEAR_PX = 24;

type Props = {
  readonly projectId: string;
  readonly appName: string;
  readonly lines: readonly NumberedLine[];
  readonly isWrapped: boolean;
  /** Stays at the newest line. */
  readonly isFollowing: boolean;
  /** Somebody scrolls up to read, or back down to the end. */
  readonly onAtEnd: (isAtEnd: boolean) => void;
  /** Above the oldest line. */
  readonly head: ReactNode;
};

/** Lines that scroll; only those near to what is seen are in the page. */
export function LogLines({ lines, isFollowing, onAtEnd, head, isWrapped, ...where }: Props) {
  const box = useRef<HTMLDivElement>(null);
  const content = useRef<HTMLDivElement>(null);
  const top = useRef(0);
  const heightPx = useRef(0);
  const oldest = useRef<number | undefined>(undefined);
  const blocks = Map.groupBy(lines, ({ number }) => Math.floor(number / BLOCK_LINES));
  useLayoutEffect(() => {
    const [element, inner] = [box.current, content.current];
    if (!element || !inner) return undefined;
    // Lines come, and may turn out taller than their place was.
    const onHeight = (): void => {
      heightPx.current = inner.offsetHeight;
      if (isFollowing) element.scrollTop = element.scrollHeight;
    };
    onHeight();
    const observer = new ResizeObserver(onHeight);
    observer.observe(inner);
    return () => observer.disconnect();
  }, [isFollowing]);
  useLayoutEffect(() => {
    // Older lines come in above: what is read stays where it is.
    const [first] = lines;
    const isOlder = first && oldest.current !== undefined && first.number < oldest.current;
    if (isOlder && box.current && content.current)
      box.current.scrollTop += content.current.offsetHeight - heightPx.current;
    oldest.current = first?.number;
  }, [lines]);
  const onScroll = (): void => {
    const element = box.current;
    if (!element) return;
    const isUp = element.scrollTop < top.current;
    top.current = element.scrollTop;
    const isAtEnd = element.scrollHeight - element.scrollTop - element.clientHeight < NEAR_PX;
    // Only a move upwards leaves the end: lines that come also make it farther.
    if (isAtEnd || isUp) onAtEnd(isAtEnd);
  };
  return (
    <div
      ref={box}
      onScroll={onScroll}
      tabIndex={0}
      role="region"
      aria-label="Log lines"
      className="h-[max(20rem,calc(100vh-22rem))] overflow-auto overscroll-contain py-2 font-mono text-[0.88rem] leading-5.5 [overflow-anchor:none]"
    >
      {head}
      <div ref={content} className={isWrapped ? undefined : "w-max min-w-full"}>
        {[...blocks].map(([number, block]) => (
          <Block key={number} root={box} size={block.length}>
            {() =>
              block.map((line) => <LogRow key={line.number} line={line} isWrapped={isWrapped} {...where} />)
            }
          </Block>
        ))}
      </div>
    </div>
  );
}

/** Holds its place while it is far away. */
function Block({
  root,
  size,
  children,
}: {
  readonly root: RefObject<HTMLDivElement | null>;
  readonly size: number;
  readonly children: () => ReactNode;
}) {
  const element = useRef<HTMLDivElement>(null);
  const [awayPx, setAwayPx] = useState<number | null>(size * LINE_PX);
  useEffect(() => {
    const watched = element.current;
    if (!watched) return undefined;
    const look = ([entry]: IntersectionObserverEntry[]): void => {
      if (entry) setAwayPx(entry.isIntersecting ? null : entry.boundingClientRect.height);
    };
    const observer = new IntersectionObserver(look, { root: root.current, rootMargin: `${AHEAD_PX}px` });
    observer.observe(watched);
    return () => observer.disconnect();
  }, [root]);
  const lastPx = useRef(awayPx);
  useLayoutEffect(() => {
    const [inner, outer] = [element.current, root.current];
    // What comes into the page above what is read must not move it.
    if (awayPx === null && lastPx.current !== null && inner && outer) {
      const isAbove = inner.getBoundingClientRect().top < outer.getBoundingClientRect().top;
      if (isAbove) outer.scrollTop += inner.offsetHeight - lastPx.current;
    }
    lastPx.current = awayPx;
  }, [awayPx, root]);
  return (
    <div ref={element} style={awayPx === null ? undefined : { height: awayPx }}>
      {awayPx === null && children()}
    </div>
  );
}
