import { expect, test } from "vitest";
import { LineBuffer } from "../../../../src/apps/logs/line-buffer.ts";
import { FIRST_TAG, logIdAt, type LogLine } from "../../../../src/model/log-line.ts";

const idAt = (time: number): string => logIdAt(BigInt(time), FIRST_TAG);
const START = idAt(0);
const line = (time: number, text = "text", appNumber = 1): LogLine => ({
  id: idAt(time),
  appNumber,
  runId: null,
  replicaId: "r-one",
  lineNumber: time,
  stream: "stdout",
  text,
});
const numbers = (lines: readonly LogLine[] = []): number[] => lines.map(({ lineNumber }) => lineNumber);
const all = () => true;

function bufferOf(...lines: LogLine[]): LineBuffer {
  const buffer = new LineBuffer(START);
  for (const each of lines) buffer.add(each);
  return buffer;
}

test("lines wait in order until they are stored, and can be read before and after", () => {
  const buffer = bufferOf(line(1), line(2), line(3));
  expect(numbers(buffer.waiting(2, 1_000_000))).toEqual([1, 2]);
  expect(numbers(buffer.waiting(5, 1))).toEqual([1]);
  buffer.markStored(2);
  expect(buffer.waitingCount).toBe(1);
  expect(numbers(buffer.waiting(5, 1_000_000))).toEqual([3]);
  expect(numbers(buffer.after(START, all, 10)?.lines)).toEqual([1, 2, 3]);
});

test("a page goes on where the one before has reached", () => {
  const buffer = bufferOf(line(1), line(3), line(5), line(7));
  const page = buffer.after(START, all, 2);
  expect([numbers(page?.lines), page?.reached]).toEqual([[1, 3], idAt(3)]);
  expect(numbers(buffer.after(idAt(3), all, 2)?.lines)).toEqual([5, 7]);
  expect(numbers(buffer.after(idAt(4), all, 9)?.lines)).toEqual([5, 7]);
  expect(buffer.after(idAt(7), all, 9)).toEqual({ lines: [], reached: idAt(7) });
});

test("lines that were not chosen are not looked at again", () => {
  const buffer = bufferOf(line(1), line(2, "text", 2), line(3));
  expect(buffer.after(START, ({ appNumber }) => appNumber === 9, 5)).toEqual({ lines: [], reached: idAt(3) });
});

test("what is stored is kept within bounds, and a place before it is for the store", () => {
  const buffer = bufferOf(...Array.from({ length: 100 }, (_, i) => line(i + 1, "x".repeat(100_000))));
  expect(buffer.completeAfter).toBe(START);
  buffer.markStored(100);
  expect(buffer.after(START, all, 1)).toBeNull();
  const kept = buffer.after(buffer.completeAfter, all, 1_000)?.lines ?? [];
  expect(kept.length).toBeGreaterThan(20);
  expect(kept.length).toBeLessThan(50);
  expect(kept.at(-1)?.lineNumber).toBe(100);
});

test("what waits is never let go, and is full at 32 MiB", () => {
  const buffer = new LineBuffer(START);
  let time = 0;
  while (!buffer.isFull) buffer.add(line(++time, "x".repeat(65_000)));
  expect(time).toBeGreaterThan(500);
  expect(time).toBeLessThan(520);
  expect(numbers(buffer.after(START, all, 1)?.lines)).toEqual([1]);
  buffer.markStored(1);
  expect(buffer.isFull).toBe(false);
  expect(buffer.abandon()).toBe(time - 1);
  expect(buffer.waitingCount).toBe(0);
});
