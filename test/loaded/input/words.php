<?php
// A deterministic PHP script: arrays, strings, regular expressions, objects, generators, and extensions that are loaded as libraries.
$rounds = (int)($argv[1] ?? 1);
$state = 20261122;
function draw($limit) {
    global $state;
    $state = ($state * 1103515245 + 12345) & 0x7fffffff;
    return ($state >> 8) % $limit;
}

class Node {
    public $next = null;
    public function __construct(public string $name, public array $words) {}
}

function words($count) {
    for ($i = 0; $i < $count; $i++) yield str_repeat(chr(97 + draw(26)), 1 + draw(40)) . $i % 977;
}

for ($round = 0; $round < $rounds; $round++) {
    $lists = [];
    $first = null;
    foreach (words(12000) as $word) {
        $lists[strlen($word)][] = $word;
        if (draw(4) === 0) {
            $node = new Node($word, array_slice($lists[strlen($word)], -3));
            $node->next = $first;
            $first = $node;
        }
    }
    ksort($lists);
    $text = implode(' ', array_map(fn($list) => implode(',', $list), $lists));
    $short = preg_replace_callback('/([a-m])\1{3,}(\d+)/', fn($m) => $m[1] . strlen($m[0]) . $m[2], $text);
    $wide = iconv('UTF-8', 'UTF-16LE', substr($short, 0, 20000));
    $copy = unserialize(serialize($lists));
    $packed = json_decode(json_encode($copy), true);
    $length = 0;
    for ($node = $first; $node !== null; $node = $node->next) $length += strlen($node->name) + count($node->words);
    $tokens = token_get_all(file_get_contents(__FILE__));
    $digits = array_filter(str_split($short, 9), fn($part) => ctype_alnum($part));
    echo $round, ' ', md5($short), ' ', crc32($wide), ' ', count($packed), ' ', $length, ' ', count($tokens), ' ', count($digits), ' ',
        md5(var_export($packed, true)), "\n";
    gc_collect_cycles();
}
