# lines.pl SORTS MATCHES: sorts lines, and matches them with a regular expression.
use strict;
use warnings;

my ($sorts, $matches) = @ARGV;
my @lines = map { sprintf "%x%s", $_ * 2654435761 % 1000003, "abc" x ($_ % 5) } 1 .. 20000;
my $count = 0;
for (1 .. $sorts) {
    my @sorted = sort { $a cmp $b } @lines;
    $count += length $sorted[0];
}
for (1 .. $matches) {
    for my $line (@lines) {
        $count++ if $line =~ /[a-c]+f?bc(\d|a)/;
    }
}
print "$count\n";
