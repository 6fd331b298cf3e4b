/** What the colours of the scores mean. */

export function Legend() {
  return (
    <span class="legend" role="img" aria-label="Colours of scores, from 0 to 10; hatched: no score">
      <span aria-hidden="true">0</span>
      {Array.from({ length: 11 }, (_, score) => (
        <i class={`score s${score}`} />
      ))}
      <span aria-hidden="true">10</span>
      <i class="score none" />
      <span aria-hidden="true">no score</span>
    </span>
  );
}
