{ Cases for heddlemm, one a run: cases NAME. Ends with status 0, or with 1 after a line that says what is wrong.
  SPDX-License-Identifier: MIT }
program cases;

{$mode objfpc}{$H+}

uses
  {$ifdef THREADS_FIRST}cthreads, heddlemm,{$else}heddlemm, cthreads,{$endif} cwstring, SysUtils, Classes, Variants;

type
  TCase = procedure;
  TBody = procedure(Index: Integer);

  { What a thread is to do, and what became of it. }
  TOrder = record
    Body: TBody;
    Index: Integer;
    Thread: TThreadID;
    Failure: string;
  end;
  POrder = ^TOrder;

  IShape = interface
    function Area: Integer;
  end;

  TSquare = class(TInterfacedObject, IShape)
    Side: Integer;
    Name: string;
    constructor Create(ASide: Integer);
    function Area: Integer;
  end;

procedure Check(Right: Boolean; const What: string; const Values: array of const);
begin
  if Right then Exit;
  WriteLn(StdErr, 'cases: ', Format(What, Values));
  Halt(1);
end;

function Obey(Order: Pointer): PtrInt;
begin
  Result := 0;
  try
    POrder(Order)^.Body(POrder(Order)^.Index);
  except
    on E: Exception do POrder(Order)^.Failure := E.ClassName + ': ' + E.Message;
  end;
end;

{ Run Body in so many threads at once; an exception in one of them is a failure here. }
procedure InThreads(Count: Integer; Body: TBody);
var
  Orders: array of TOrder;
  I: Integer;
begin
  SetLength(Orders, Count);
  for I := 0 to Count - 1 do begin
    Orders[I].Body := Body;
    Orders[I].Index := I;
    Orders[I].Thread := BeginThread(@Obey, @Orders[I]);
  end;
  for I := 0 to Count - 1 do begin
    WaitForThreadTerminate(Orders[I].Thread, 0);
    CloseThread(Orders[I].Thread);
    Check(Orders[I].Failure = '', 'thread %d of %d: %s', [I, Count, Orders[I].Failure]);
  end;
end;

constructor TSquare.Create(ASide: Integer);
begin
  Side := ASide;
  Name := 'square ' + IntToStr(ASide);
end;

function TSquare.Area: Integer;
begin
  Result := Side * Side;
end;

{ ---- sizes ---------------------------------------------------------------------------------------------------------------- }

procedure CheckBlock(P: Pointer; Size: PtrUInt);
begin
  Check(P <> nil, 'no block of %d', [Size]);
  Check(PtrUInt(P) and 15 = 0, 'the block of %d at %p is not aligned to 16', [Size, P]);
  Check(MemSize(P) >= Size, 'the block of %d has %d', [Size, MemSize(P)]);
end;

{ What the size asked for may become at most: to the lists of 32 (first), 64 and 512 bytes in the manager that these come from. }
procedure Sizes;
const
  Asked: array[0..5] of PtrUInt = (16, 40, 500, 1, 32, 256);
  Most: array[0..5] of PtrUInt = (32, 64, 512, 32, 32, 256);
var
  I: Integer;
  P: Pointer;
begin
  for I := 0 to High(Asked) do begin
    GetMem(P, Asked[I]);
    CheckBlock(P, Asked[I]);
    Check(MemSize(P) <= Most[I], '%d bytes became %d', [Asked[I], MemSize(P)]);
    FreeMem(P, Asked[I]);
  end;
end;

procedure Alignment;
var
  Size: PtrUInt;
  P, Q: Pointer;
begin
  Size := 0;
  while Size < 3000000 do begin
    P := GetMem(Size);
    CheckBlock(P, Size);
    FillChar(P^, Size, 165);
    Q := AllocMem(Size);
    CheckBlock(Q, Size);
    Check((Size = 0) or (CompareByte(Q^, (PByte(Q) + 1)^, Size - 1) = 0) and (PByte(Q)^ = 0), 'AllocMem of %d is not zero', [Size]);
    ReallocMem(P, Size + 1);
    CheckBlock(P, Size + 1);
    FreeMem(P);
    FreeMem(Q);
    if Size < 2200 then Inc(Size) else Size := Size + Size div 37;
  end;
end;

procedure Zero;
var
  P, Q: Pointer;
  Used: PtrUInt;
begin
  P := GetMem(0);
  Q := GetMem(0);
  CheckBlock(P, 0);
  Check((Q <> nil) and (P <> Q), 'two blocks of 0 are one', []);
  ReallocMem(P, 100);
  CheckBlock(P, 100);
  ReallocMem(P, 0);
  Check(P = nil, 'ReallocMem to 0 left a pointer', []);
  ReallocMem(P, 0);
  Check(P = nil, 'ReallocMem of nil to 0 made a block', []);
  FreeMem(Q);
  FreeMem(P);
  Check(MemSize(nil) = 0, 'nil has a size', []);
  Used := GetFPCHeapStatus.CurrHeapUsed;
  P := GetMem(0);
  FreeMem(P, 0);
  Check(GetFPCHeapStatus.CurrHeapUsed = Used, 'FreeMem(P, 0) left the block of GetMem(0)', []);
  P := GetMem(1000);
  FreeMem(P, 0); { as with Free Pascal's own manager: nothing happens }
  CheckBlock(P, 1000);
  FreeMem(P, 1000);
  FreeMem(P, 0); { not a block any more, and still nothing happens: also not to the next one of this address }
  Q := GetMem(1000);
  FreeMem(Q);
end;

{ ---- resizing --------------------------------------------------------------------------------------------------------------- }

procedure Put(P: PByte; First, Last: PtrInt; Key: Integer);
var
  I: PtrInt;
begin
  for I := First to Last - 1 do P[I] := (I * 7 + Key) and 255;
end;

procedure CheckPut(P: PByte; Size: PtrInt; Key: Integer);
var
  I: PtrInt;
begin
  for I := 0 to Size - 1 do Check(P[I] = (I * 7 + Key) and 255, 'byte %d of %d is %d', [I, Size, P[I]]);
end;

procedure Realloc;
var
  P: array[0..7] of PByte;
  Size: array[0..7] of PtrInt;
  Round, I, J: Integer;
  Wanted: PtrInt;
begin
  RandSeed := 1;
  for I := 0 to 7 do begin
    P[I] := nil;
    Size[I] := 0;
  end;
  for Round := 1 to 1200 do begin
    I := Random(8);
    Wanted := 1 + Random(1 shl Random(20));
    ReallocMem(P[I], Wanted);
    CheckBlock(P[I], Wanted);
    J := Size[I];
    if Wanted < J then J := Wanted;
    CheckPut(P[I], J, I);
    Put(P[I], J, Wanted, I);
    Size[I] := Wanted;
  end;
  for I := 0 to 7 do begin
    CheckPut(P[I], Size[I], I);
    FreeMem(P[I]);
  end;
end;

{ Appending moves the text a number of times that grows with the logarithm of its length. }
procedure InPlace;
var
  S: string;
  Before: Pointer;
  I, Moves: Integer;
  P, Q: Pointer;
begin
  S := '';
  Moves := 0;
  for I := 1 to 1000000 do begin
    Before := Pointer(S);
    S := S + Chr(I and 127);
    if Pointer(S) <> Before then Inc(Moves);
  end;
  Check(Length(S) = 1000000, 'the string has %d', [Length(S)]);
  for I := 1 to Length(S) do Check(Ord(S[I]) = I and 127, 'character %d', [I]);
  Check(Moves <= 150, 'a string of a million moved %d times', [Moves]);
  P := GetMem(1000);
  Q := P;
  ReallocMem(P, MemSize(P));
  Check(P = Q, 'a block moved within its own size', []);
  ReallocMem(P, MemSize(P) div 4);
  Check(P = Q, 'a small block moved for a shrink to a quarter', []);
  ReallocMem(P, 16);
  Check(MemSize(P) <= 32, 'a block of 16 still holds %d', [MemSize(P)]);
  FreeMem(P);
  P := GetMem(3000000);
  ReallocMem(P, 100000);
  Check(MemSize(P) < 200000, 'a block of 100000 still holds %d', [MemSize(P)]);
  FreeMem(P);
end;

{ ---- what the language allocates ------------------------------------------------------------------------------------------- }

procedure Types(Index: Integer);
var
  Ansi: string;
  Wide: UnicodeString;
  Old: WideString;
  Cube: array of array of array of Integer;
  Squares: array of IShape;
  Mixed: Variant;
  List: TStringList;
  I, J, Sum: Integer;
begin
  Ansi := '';
  Wide := '';
  for I := 0 to 300 do begin
    Ansi := Ansi + IntToStr(I + Index) + ';';
    Wide := Wide + UnicodeString(IntToStr(I)) + WideChar($20AC);
    Old := Wide;
    SetLength(Squares, I + 1);
    Squares[I] := TSquare.Create(I);
  end;
  Check((Length(Wide) = Length(Old)) and (Wide[Length(Wide)] = WideChar($20AC)), 'the unicode string is wrong', []);
  UniqueString(Ansi);
  Check(Copy(Ansi, 1, Length(IntToStr(Index)) + 1) = IntToStr(Index) + ';', 'the string begins with %s', [Copy(Ansi, 1, 9)]);
  SetLength(Cube, 7, 5, 9);
  for I := 0 to 6 do for J := 0 to 4 do Cube[I][J][8] := I * J;
  SetLength(Cube, 3, 8, 11);
  Check((Cube[2][4][8] = 8) and (Cube[2][7][10] = 0), 'the array lost its content', []);
  Sum := 0;
  for I := 0 to High(Squares) do Inc(Sum, Squares[I].Area);
  Check(Sum = 300 * 301 * 601 div 6, 'the squares sum up to %d', [Sum]);
  Mixed := VarArrayCreate([0, 9], varVariant);
  Mixed[3] := 'three';
  Check(Mixed[3] = 'three', 'the variant lost its content', []);
  List := TStringList.Create;
  for I := 0 to 200 do List.AddObject(IntToStr(1000 - I), TSquare.Create(I));
  List.Sort;
  for I := 0 to 200 do List.Objects[I].Free;
  Check((List[0] = '1000') and (List[1] = '800'), 'the list is not sorted', []);
  List.Free;
end;

procedure Language;
begin
  Types(0);
  InThreads(4, @Types);
end;

{ ---- threads ----------------------------------------------------------------------------------------------------------------- }

const
  Messages = 40000;

var
  Ring: array[0..255] of Pointer;

{ Even threads fill their ring places with strings, odd ones take them out and free them. }
procedure Pass(Index: Integer);
var
  I: Integer;
  S: string;
  Place: ^Pointer;
begin
  for I := 0 to Messages - 1 do begin
    Place := @Ring[(Index div 2) * 64 + I and 63];
    if Odd(Index) then begin
      while InterlockedCompareExchange(Place^, nil, nil) = nil do ThreadSwitch;
      S := '';
      Pointer(S) := InterlockedExchange(Place^, nil);
      Check((Length(S) >= 8) and (StrToInt('$' + Copy(S, 1, 8)) = I), 'message %d reads %s', [I, Copy(S, 1, 20)]);
      if I and 7 = 0 then S := S + S;
      S := '';
    end else begin
      S := IntToHex(I, 8) + StringOfChar('x', I mod 500);
      while InterlockedCompareExchange(Place^, nil, nil) <> nil do ThreadSwitch;
      InterlockedExchange(Place^, Pointer(S));
      Pointer(S) := nil;
    end;
  end;
end;

procedure Producers;
var
  Used: PtrUInt;
begin
  InThreads(4, @Pass);
  Used := GetFPCHeapStatus.CurrHeapUsed;
  InThreads(4, @Pass);
  Check(GetFPCHeapStatus.CurrHeapUsed <= Used, 'messages left %d bytes', [PtrInt(GetFPCHeapStatus.CurrHeapUsed - Used)]);
end;

var
  Kept: array[0..15] of TStringList;

procedure Short(Index: Integer);
var
  I: Integer;
begin
  Kept[Index].Free; { another thread's, which has ended }
  Kept[Index] := TStringList.Create;
  for I := 0 to 400 do Kept[Index].Add(StringOfChar('s', I));
end;

{ Threads that live for a moment, whose blocks outlive them: the heap keeps what 16 at a time need, and not what 1600 in a row do. }
procedure ShortThreads;
const
  AtOnce = 16;
var
  Round: Integer;
  Before, After: THeddleStats;
begin
  for Round := 1 to 20 do InThreads(AtOnce, @Short);
  Before := HeddleStats;
  for Round := 1 to 80 do InThreads(AtOnce, @Short);
  After := HeddleStats;
  Check(After.Live <= Before.Live + 4096, '1280 threads left %d bytes', [PtrInt(After.Live - Before.Live)]);
  Check(After.HeapCount + After.OrphanCount <= AtOnce + 2, '%d heaps', [After.HeapCount + After.OrphanCount]);
  Check(After.Mapped <= (AtOnce + 2) * (3 shl 20), 'the heap took %d bytes', [After.Mapped]);
  for Round := 0 to High(Kept) do Kept[Round].Free;
end;

{ ---- status ------------------------------------------------------------------------------------------------------------------- }

var
  Stop: LongInt;

procedure Churn(Index: Integer);
var
  P: array[0..99] of Pointer;
  I: Integer;
begin
  repeat
    for I := 0 to 99 do P[I] := GetMem(Index * 100 + I * 11);
    for I := 0 to 99 do FreeMem(P[I]);
  until InterlockedCompareExchange(Stop, 1, 1) = 1;
end;

procedure LookAround(Index: Integer);
var
  I: Integer;
  Stats: THeddleStats;
begin
  for I := 1 to 300 do begin
    Stats := HeddleStats;
    Check((Stats.Version = 1) and (Stats.Live < 64 shl 20) and (Stats.HeapCount >= 1), 'live is %d', [Stats.Live]);
  end;
  InterlockedExchange(Stop, 1);
end;

procedure ChurnOrLook(Index: Integer);
begin
  if Index = 0 then LookAround(0) else Churn(Index);
end;

procedure Status;
var
  P: array[0..99] of Pointer;
  Q: Pointer;
  Before, Full, After: TFPCHeapStatus;
  Heap: THeapStatus;
  I: Integer;
begin
  Before := GetFPCHeapStatus;
  for I := 0 to 99 do P[I] := GetMem(1000);
  Q := GetMem(10000000);
  Full := GetFPCHeapStatus;
  Heap := GetHeapStatus;
  Check(Full.CurrHeapUsed - Before.CurrHeapUsed >= 10100000, 'used only %d', [Full.CurrHeapUsed - Before.CurrHeapUsed]);
  Check(Full.CurrHeapUsed - Before.CurrHeapUsed <= 10300000, 'used as much as %d', [Full.CurrHeapUsed - Before.CurrHeapUsed]);
  Check(Heap.TotalAllocated = Full.CurrHeapUsed, 'the two states differ: %d, %d', [Heap.TotalAllocated, Full.CurrHeapUsed]);
  Check(Heap.TotalAddrSpace >= Heap.TotalAllocated, 'the address space is too small', []);
  for I := 0 to 99 do FreeMem(P[I]);
  FreeMem(Q);
  After := GetFPCHeapStatus;
  Check(After.CurrHeapUsed = Before.CurrHeapUsed, '%d bytes are left', [PtrInt(After.CurrHeapUsed - Before.CurrHeapUsed)]);
  Check(After.MaxHeapUsed >= Full.CurrHeapUsed, 'the peak that was seen is forgotten', []);
  Check(Pos('in blocks that the program holds', HeddleStatsText) > 0, 'the text of the statistics: %s', [HeddleStatsText]);
  Check(HeddleOption('purge-delay', '100') and not HeddleOption('purge-delay', 'x') and not HeddleOption('nothing', '1'), 'options', []);
  HeddleCollect;
  Check(HeddleStats.Cached < 1 shl 20, '%d bytes are cached after a collection', [HeddleStats.Cached]);
  InThreads(3, @ChurnOrLook);
end;

{ ---- errors --------------------------------------------------------------------------------------------------------------------- }

procedure Sound;
var
  P: array[0..499] of PInteger;
  I: Integer;
begin
  for I := 0 to 499 do begin
    P[I] := GetMem(64 + I and 3);
    P[I]^ := I;
  end;
  for I := 0 to 499 do begin
    Check(P[I]^ = I, 'block %d was handed out twice', [I]);
    FreeMem(P[I]);
  end;
end;

procedure Refuse(P: Pointer; Resize: Boolean; const What: string);
var
  Refused: Boolean;
begin
  Refused := False;
  try
    if Resize then ReallocMem(P, 5000) else FreeMem(P);
  except
    on E: EInvalidPointer do Refused := True;
  end;
  Check(Refused, '%s was accepted', [What]);
  Sound;
end;

var
  Victim: Pointer;

procedure FreeVictim(Index: Integer);
begin
  FreeMem(Victim);
end;

procedure Misuse;
var
  Sizes: array[0..3] of Integer = (20, 3000, 300000, 8000000);
  P: Pointer;
  I: Integer;
begin
  for I := 0 to High(Sizes) do begin
    P := GetMem(Sizes[I]);
    FreeMem(P);
    Refuse(P, False, 'a double free');
    Refuse(P, True, 'ReallocMem of a freed block');
    P := GetMem(Sizes[I]);
    Refuse(P + 16, False, 'a pointer into a block');
    FreeMem(P);
    Victim := GetMem(Sizes[I]);
    InThreads(1, @FreeVictim);
    Refuse(Victim, False, 'a block that another thread has freed');
  end;
end;

procedure Exhaust(Size: PtrUInt);
var
  P: Pointer;
  Refused: Integer;
begin
  Refused := 0;
  P := nil;
  try
    P := GetMem(Size);
  except
    on E: EOutOfMemory do Inc(Refused);
  end;
  Check(P = nil, '%x bytes were given', [Size]);
  P := GetMem(100);
  PInteger(P)^ := 4711;
  try
    ReallocMem(P, Size);
  except
    on E: EOutOfMemory do Inc(Refused);
  end;
  Check((Refused = 2) and (PInteger(P)^ = 4711), '%d of 2 refused, the block reads %d', [Refused, PInteger(P)^]);
  FreeMem(P);
  ReturnNilIfGrowHeapFails := True;
  P := GetMem(Size);
  Check((P = nil) and (AllocMem(Size) = nil), 'nil was wanted', []);
  ReturnNilIfGrowHeapFails := False;
  Sound;
end;

{ Everything that there is, in blocks of 1 MiB; the driver sets a limit. Then half of it is free again, and the heap goes on. }
procedure NoMemory;
var
  First, P: PPointer;
  Count: Integer;
begin
  Exhaust(PtrUInt(1) shl 50);
  Exhaust(High(PtrUInt) - 4096);
  Exhaust(PtrUInt(-1));
  First := nil;
  Count := 0;
  try
    repeat
      P := GetMem(1 shl 20);
      P^ := First;
      First := P;
      Inc(Count);
    until Count > 4000;
  except
    on E: EOutOfMemory do Sound;
  end;
  Check((Count > 20) and (Count <= 4000), '%d blocks of 1 MiB', [Count]);
  while First <> nil do begin
    P := First^;
    FreeMem(First);
    First := P;
  end;
  P := GetMem(8 shl 20);
  FillChar(P^, 8 shl 20, 1);
  FreeMem(P);
  Types(1);
end;

{ ---- the program ---------------------------------------------------------------------------------------------------------------- }

const
  Names: array[0..10] of string = ('sizes', 'alignment', 'zero', 'realloc', 'in-place', 'language', 'producers', 'short-threads',
    'status', 'misuse', 'no-memory');
  Cases_: array[0..10] of TCase = (@Sizes, @Alignment, @Zero, @Realloc, @InPlace, @Language, @Producers, @ShortThreads,
    @Status, @Misuse, @NoMemory);

var
  I: Integer;
begin
  for I := 0 to High(Names) do
    if ParamStr(1) = Names[I] then begin
      Cases_[I]();
      Halt(0);
    end;
  for I := 0 to High(Names) do WriteLn(Names[I]);
end.
