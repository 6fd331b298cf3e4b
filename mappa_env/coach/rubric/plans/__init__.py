"""Plans of mathematics teams as text: what they come to, whatever way they are written in."""
